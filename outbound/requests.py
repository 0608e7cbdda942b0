"""The body of a send, as a value: every error with its path (REST contract 2.8).

Only the form is judged here. Limits belong to the policy, which is asked after the
ledger: a stricter limit must not turn a replay into an error.
"""

import re
from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, Final, Literal, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    WithJsonSchema,
    model_validator,
)

from core.errors import MOST_ERRORS, FieldError, InvalidRequest
from outbound.errors import IdempotencyKeyRequired, InvalidIdempotencyKey

KEY_PATTERN: Final = re.compile(r"[\x20-\x7E]{1,255}")
MOST_ENTRIES: Final = 1000
"""Entries of one list that are looked at; no policy allows nearly as many."""

_STRICT = ConfigDict(extra="forbid", frozen=True, strict=True)


def idempotency_key(header: str | None) -> str:
    """Return the key, or raise IdempotencyKeyRequired or InvalidIdempotencyKey.

    Two header lines arrive joined by a comma, which a key may hold: a key of its own.
    """
    if header is None:
        raise IdempotencyKeyRequired("The header Idempotency-Key is missing.")
    if KEY_PATTERN.fullmatch(header) is None:
        raise InvalidIdempotencyKey("The Idempotency-Key has not the documented form.")
    return header


class Recipient(BaseModel):
    """Somebody to write to."""

    model_config = _STRICT

    address: str
    name: str | None = None

    @model_validator(mode="before")
    @classmethod
    def _from_text(cls, value: Any) -> Any:
        return {"address": value} if isinstance(value, str) else value


class AttachmentInput(BaseModel):
    """A file, in base64."""

    model_config = _STRICT

    filename: str
    content_type: str
    content_base64: str = Field(repr=False)
    disposition: Literal["attachment", "inline"] = "attachment"
    content_id: str | None = None


RecipientInput = Annotated[
    Recipient,
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "string", "description": "An address."},
                {
                    "type": "object",
                    "properties": {
                        "address": {"type": "string"},
                        "name": {"type": ["string", "null"]},
                    },
                    "required": ["address"],
                    "additionalProperties": False,
                },
            ]
        }
    ),
]
Recipients = Annotated[list[RecipientInput], Field(max_length=MOST_ENTRIES)]
Kind = Literal["transactional", "marketing", "auto_reply"]


class UnsubscribeInput(BaseModel):
    """How a reader gets off the list: an https URL, and an address beside it."""

    model_config = _STRICT

    url: str
    mailto: str | None = None


class ConsentInput(BaseModel):
    """Why the recipients may be written to, and since when it is on record."""

    model_config = _STRICT

    basis: str
    recorded_at: str


class _Body(BaseModel):
    """What every kind of send may say."""

    model_config = _STRICT

    text: str | None = Field(default=None, repr=False)
    html: str | None = Field(default=None, repr=False)
    attachments: Annotated[list[AttachmentInput], Field(max_length=MOST_ENTRIES)] = []
    headers: dict[str, str] = {}
    labels: Annotated[list[str], Field(max_length=MOST_ENTRIES)] = []
    metadata: dict[str, str] = {}
    from_address: str | None = None

    @classmethod
    def parse(cls, body: dict[str, Any]) -> Self:
        """Return the request; raises InvalidRequest that lists what is wrong, where."""
        try:
            return cls.model_validate(body)
        except ValidationError as error:
            found = error.errors(include_url=False, include_input=False)
            raise InvalidRequest(
                "The request does not have the documented form.",
                errors=[
                    FieldError(_path(item["loc"]), item["msg"])
                    for item in found[:MOST_ERRORS]
                ],
            ) from None


class SendRequest(_Body):
    """What a caller asks to be sent."""

    example: ClassVar[dict[str, Any]] = {
        "to": ["jo@example.net", {"address": "lee@example.org", "name": "Lee"}],
        "subject": "Your booking 2291",
        "text": "See you on Friday.",
        "labels": ["bookings"],
        "metadata": {"booking": "2291"},
    }
    include_attachments: ClassVar[bool] = False

    to: Recipients
    cc: Recipients = []
    bcc: Recipients = []
    subject: str
    kind: Kind = "transactional"
    unsubscribe: UnsubscribeInput | None = None
    consent: ConsentInput | None = None
    thread_id: str | None = None


class ReplyRequest(_Body):
    """What a caller answers; recipients and subject come from what is answered."""

    example: ClassVar[dict[str, Any]] = {"text": "Friday is fine. See you then."}
    to: ClassVar[Sequence[Recipient]] = ()
    cc: ClassVar[Sequence[Recipient]] = ()
    bcc: ClassVar[Sequence[Recipient]] = ()
    subject: ClassVar[str] = ""
    thread_id: ClassVar[str | None] = None
    include_attachments: ClassVar[bool] = False

    kind: Kind = "transactional"
    unsubscribe: UnsubscribeInput | None = None
    consent: ConsentInput | None = None


class ForwardRequest(_Body):
    """Whom a message is passed on to, and what is said with it."""

    example: ClassVar[dict[str, Any]] = {
        "to": ["maintenance@example.org"],
        "text": "Can you look at this invoice?",
    }
    subject: ClassVar[str] = ""
    kind: ClassVar[Kind] = "transactional"
    unsubscribe: ClassVar[UnsubscribeInput | None] = None
    consent: ClassVar[ConsentInput | None] = None
    thread_id: ClassVar[str | None] = None

    to: Recipients
    cc: Recipients = []
    bcc: Recipients = []
    include_attachments: bool = True


AnyRequest = SendRequest | ReplyRequest | ForwardRequest


def _path(location: tuple[int | str, ...]) -> str:
    """Return a place as clients read it, e.g. ``to[1].address``."""
    path = ""
    for part in location:
        path += f"[{part}]" if isinstance(part, int) else f".{part}"
    return path.removeprefix(".")
