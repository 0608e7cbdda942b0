"""The body of a send, as a value: every error with its path (REST contract 2.8).

Only the form is judged here. Limits belong to the policy, which is asked after the
ledger: a stricter limit must not turn a replay into an error.
"""

from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, Final, Literal

from pydantic import ConfigDict, Field, WithJsonSchema, model_validator

from core.forms import Form, Shown
from core.text import NAME_LIMIT, PLAIN_PATTERN
from mailboxes.labels import LABEL, LABELS_LIMIT
from mailboxes.subjects import SUBJECT_LIMIT

MOST_ENTRIES: Final = 1000
"""Entries of one list that are looked at; no policy allows nearly as many."""


class Recipient(Form):
    """Somebody to write to."""

    address: str
    name: str | None = None

    @model_validator(mode="before")
    @classmethod
    def _from_text(cls, value: Any) -> Any:
        return {"address": value} if isinstance(value, str) else value


class AttachmentInput(Form):
    """A file, in base64."""

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
                        "name": {
                            "type": ["string", "null"],
                            "maxLength": NAME_LIMIT,
                            "pattern": PLAIN_PATTERN,
                        },
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


class UnsubscribeInput(Form):
    """How a reader gets off the list: an https URL, and an address beside it."""

    url: str
    mailto: str | None = None


class ConsentInput(Form):
    """Why the recipients may be written to, and since when it is on record."""

    basis: str
    recorded_at: str


_LabelText = Annotated[str, Shown("pattern", f"^{LABEL.pattern}$")]
_Subject = Annotated[
    str, Shown("maxLength", SUBJECT_LIMIT), Shown("pattern", PLAIN_PATTERN)
]
_SAYS_SOMETHING: Final = ConfigDict(
    json_schema_extra={
        "anyOf": [
            {"required": [name], "properties": {name: {"type": "string"}}}
            for name in ("text", "html")
        ]
    }
)
"""Described here, and judged in its turn by the checks of a send."""


class _Body(Form):
    """What every kind of send may say."""

    text: str | None = Field(default=None, repr=False)
    html: str | None = Field(default=None, repr=False)
    attachments: Annotated[list[AttachmentInput], Field(max_length=MOST_ENTRIES)] = []
    headers: dict[str, str] = {}
    labels: Annotated[
        list[_LabelText],
        Field(max_length=MOST_ENTRIES),
        Shown("maxItems", LABELS_LIMIT),
    ] = []
    metadata: dict[str, str] = {}
    from_address: str | None = None


class SendRequest(_Body):
    """What a caller asks to be sent."""

    model_config = _SAYS_SOMETHING
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
    subject: _Subject
    kind: Kind = "transactional"
    unsubscribe: UnsubscribeInput | None = None
    consent: ConsentInput | None = None
    thread_id: str | None = None


class ReplyRequest(_Body):
    """What a caller answers; recipients and subject come from what is answered."""

    model_config = _SAYS_SOMETHING
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
