"""What a reader of one message may ask for beside it: its bodies and its headers.

REST contract 2.6, ``include``. The list of messages has none of it.
"""

import email
import email.policy
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Final

from pydantic import BeforeValidator, Field, WithJsonSchema

from core import objects
from core.forms import Query
from mailboxes.models import Message
from outbound.serializers import Json
from outbound.stored_html import sanitized_html

WORDS: Final = ("html", "quoted", "headers")


def _words(value: Any) -> Any:
    words = frozenset(value.split(","))
    if words - set(WORDS):
        raise ValueError(f"any of {', '.join(WORDS)}, with commas and no blanks")
    return words


_WORD: Final = f"({'|'.join(WORDS)})"
Words = Annotated[
    frozenset[str],
    BeforeValidator(_words),
    WithJsonSchema({"type": "string", "pattern": f"^{_WORD}(,{_WORD})*$"}),
]


class IncludeQuery(Query):
    """What a read of one message may ask for."""

    include: Annotated[
        Words | None,
        Field(
            description="What to add, several with commas: `html`, sanitised; `quoted`,"
            " the whole `text`, with what it quotes; `headers`, as they stand in the"
            " stored copy. The first read of `html` makes its copy, which may take"
            " seconds."
        ),
    ] = None


def included(message: Message, query: IncludeQuery) -> Json:
    """Return the fields that were asked for. Raises ObjectStoreAway and Unavailable."""
    wanted = query.include or frozenset()
    return {
        field: read(message)
        for word, (field, read) in _FIELDS.items()
        if word in wanted
    }


def _headers(message: Message) -> list[Json]:
    """Return the header fields as they stand, unfolded; none once the copy is gone."""
    if message.raw_key is None:
        return []
    try:
        mime = objects.get(message.raw_key)
    except objects.ObjectMissing:
        return []
    return headers_of(mime)


def headers_of(mime: bytes) -> list[Json]:
    """Return the header fields of a message in their order, unfolded, not decoded.

    Octets that are no UTF-8 are replaced: what came in may hold anything.
    """
    head = mime.replace(b"\r\n", b"\n").partition(b"\n\n")[0]
    text = head.decode("utf-8", "replace").replace("\x00", "\ufffd")
    parsed = email.message_from_string(text, policy=email.policy.compat32)
    return [
        {"name": name, "value": "".join(str(value).splitlines()).strip()}
        for name, value in parsed.items()
    ]


_FIELDS: Final[Mapping[str, tuple[str, Callable[[Message], object]]]] = {
    "html": ("html", sanitized_html),
    "quoted": ("text", lambda message: message.text),
    "headers": ("headers", _headers),
}
"""Each word, with the field that it adds and how that is read."""
