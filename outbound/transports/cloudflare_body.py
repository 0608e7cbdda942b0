"""Pure: a composed message as the structured fields that Cloudflare takes.

The fields are read back from the sent copy, which our own composer wrote. Who gets it
is the envelope's matter: recipients that no header names are BCC.
"""

import base64
import json
import re
from collections.abc import Iterable, Iterator
from email.message import Message
from email.parser import BytesParser
from email.policy import compat32
from email.utils import collapse_rfc2231_value
from typing import Any, Final, TypeAlias

from outbound.compose import NEVER_CUSTOM
from outbound.transports.base import OutgoingMessage
from outbound.words import decoded_words

UNNAMED: Final = "file"
CUSTOM_AFTER_ALL: Final = frozenset({"in-reply-to", "references"})
SET_BY_PROVIDER: Final = NEVER_CUSTOM - CUSTOM_AFTER_ALL

_MAILBOX: Final = re.compile(
    r"""\s*(?:"(?P<quoted>(?:[^"\\]|\\.)*)"|(?P<plain>[^"<>,]*?))\s*
        (?:<(?P<angled>[^<>\s]+)>|(?P<bare>[^<>\s,";:]+@[^<>\s,";:]+))\s*(?:,|\Z)""",
    re.VERBOSE,
)

Person = dict[str, str]
Part: TypeAlias = "Message[str, str]"


def body_of(message: OutgoingMessage) -> bytes:
    """Return the JSON body of a send."""
    parsed = BytesParser(policy=compat32).parsebytes(message.mime)
    fields = {
        "from": _sender(parsed, message),
        "reply_to": next(_people(parsed, "Reply-To"), None),
        "subject": _text(parsed, "Subject"),
        **_recipients(parsed, message),
        **_content(parsed),
        "headers": dict(_custom(parsed)),
    }
    given = {name: value for name, value in fields.items() if value not in (None, {})}
    return json.dumps(given, ensure_ascii=False).encode()


def _sender(parsed: Part, message: OutgoingMessage) -> Person:
    names = [person.get("name") for person in _people(parsed, "From")]
    return _person(message.from_address, names[0] if names else None)


def _recipients(parsed: Part, message: OutgoingMessage) -> dict[str, list[Person]]:
    """Return who is still to get it, in the fields where the headers name them."""
    left = set(message.recipients)
    found: dict[str, list[Person]] = {"to": [], "cc": []}
    for field, people in found.items():
        for person in _people(parsed, field):
            if person["address"].lower() in left:
                left.remove(person["address"].lower())
                people.append(person)
    hidden = [*sorted(left), *filter(None, (message.journal_bcc,))]
    found["bcc"] = [_person(address) for address in hidden]
    return {field: people for field, people in found.items() if people}


# --- headers -------------------------------------------------------------------------


def _text(parsed: Part, name: str) -> str:
    return decoded_words(_unfolded(parsed.get(name, "")))


def _unfolded(value: object) -> str:
    return str(value).replace("\r", "").replace("\n", "")


def _people(parsed: Part, name: str) -> Iterator[Person]:
    for match in _MAILBOX.finditer(_unfolded(parsed.get(name, ""))):
        shown = match["quoted"]
        if shown is not None:
            shown = re.sub(r"\\(.)", r"\1", shown)
        else:
            shown = decoded_words(match["plain"].strip(" "))
        yield _person(match["angled"] or match["bare"], shown)


def _person(address: str, name: str | None = None) -> Person:
    return {"address": address, "name": name} if name else {"address": address}


def _custom(parsed: Part) -> Iterator[tuple[str, str]]:
    for name, value in parsed.items():
        folded = name.lower()
        if folded not in SET_BY_PROVIDER and not folded.startswith("content-"):
            yield name, decoded_words(_unfolded(value))


# --- content -------------------------------------------------------------------------


def _content(parsed: Part) -> dict[str, Any]:
    """Return text, HTML and files; a part with a disposition is a file."""
    found: dict[str, Any] = {}
    files = []
    for part in _leaves(parsed):
        if part.get_content_disposition() is not None:
            files.append(_file(part))
        else:
            kind = "html" if part.get_content_type() == "text/html" else "text"
            found.setdefault(kind, _octets(part).decode().replace("\r\n", "\n"))
    return {**found, "attachments": files} if files else found


def _leaves(parsed: Part) -> Iterable[Part]:
    return (part for part in parsed.walk() if not part.is_multipart())


def _octets(part: Part) -> bytes:
    payload = part.get_payload(decode=True)
    assert isinstance(payload, bytes)  # noqa: S101  not a multipart
    return payload


def _file(part: Part) -> dict[str, str]:
    disposition = part.get_content_disposition() or "attachment"
    content_id = str(part.get("Content-ID", "")).strip(" <>")
    is_inline = disposition == "inline" and content_id != ""
    given = {
        "content": base64.b64encode(_octets(part)).decode(),
        "filename": _filename(part),
        "type": part.get_content_type(),
        "disposition": "inline" if is_inline else "attachment",
    }
    return {**given, "content_id": content_id} if is_inline else given


def _filename(part: Part) -> str:
    named = part.get_param("filename", header="content-disposition")
    return collapse_rfc2231_value(named) if named else UNNAMED
