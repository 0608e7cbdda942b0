"""Pure: what a caller gives becomes the octets of a request, the same each time."""

import json
import re
from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypedDict

_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
_KEY = re.compile(r"[\x20-\x7e]{1,255}")


@dataclass(frozen=True, slots=True)
class Address:
    """An email address with the name of its owner."""

    address: str
    name: str | None = None


@dataclass(frozen=True, slots=True)
class Attachment:
    """A file to send along; ``content`` is its octets."""

    filename: str
    content: bytes = field(repr=False)
    content_type: str = "application/octet-stream"
    disposition: Literal["attachment", "inline"] = "attachment"
    content_id: str | None = None


Recipients = str | Address | Sequence[str | Address]


class Content(TypedDict, total=False):
    """What every way to send takes; what is None is left out."""

    text: str | None
    html: str | None
    attachments: Sequence[Attachment]
    from_address: str | None
    labels: Sequence[str]
    headers: Mapping[str, str]
    metadata: Mapping[str, str]


class ReplyFields(Content, total=False):
    """What a reply takes as well."""

    kind: str
    unsubscribe: Mapping[str, str] | None
    consent: Mapping[str, str] | None


class SendFields(ReplyFields, total=False):
    """What a new message takes as well."""

    cc: Recipients
    bcc: Recipients
    thread_id: str | None


class ForwardFields(Content, total=False):
    """What a forward takes as well."""

    cc: Recipients
    bcc: Recipients
    include_attachments: bool


def encode(fields: Mapping[str, Any]) -> bytes:
    """Return the JSON of a send's fields.

    Raises TypeError or ValueError for what has no JSON.
    """
    body = {
        name: _FORMS[name](value) if name in _FORMS else value
        for name, value in fields.items()
        if value is not None
    }
    text = json.dumps(body, ensure_ascii=False, allow_nan=False, default=dict)
    return text.encode()


def usable_key(key: str) -> str:
    """Return an idempotency key; raises ValueError for what is none."""
    if not _KEY.fullmatch(key) or key != key.strip():
        raise ValueError(
            "an idempotency key is 1 to 255 printable ASCII characters, "
            "without a space at its ends"
        )
    return key


def usable_id(value: str) -> str:
    """Return an id as it stands in a path; raises ValueError for what is none."""
    if not _ID.fullmatch(value):
        raise ValueError(f"not an id of Pylota: {value[:80]!r}")
    return value


def _recipients(given: Recipients) -> list[Any]:
    several = [given] if isinstance(given, str | Address) else given
    return [_recipient(each) for each in several]


def _recipient(given: str | Address) -> Any:
    if not isinstance(given, Address):
        return given
    name = {} if given.name is None else {"name": given.name}
    return {"address": given.address, **name}


def _attachments(given: Sequence[Attachment]) -> list[dict[str, str]]:
    return [_attachment(each) for each in given]


def _attachment(given: Attachment) -> dict[str, str]:
    cid = {} if given.content_id is None else {"content_id": given.content_id}
    return {
        "filename": given.filename,
        "content_type": given.content_type,
        "content_base64": b64encode(given.content).decode("ascii"),
        "disposition": given.disposition,
        **cid,
    }


_FORMS: Mapping[str, Any] = {
    **dict.fromkeys(("to", "cc", "bcc"), _recipients),
    "attachments": _attachments,
}
