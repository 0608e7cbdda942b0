"""Messages as the API shows them; ``raw`` is the JSON, with what is not named here.

Statuses, reasons and types are plain text: the API may add to them at any time.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Self, TypeVar

from pylota_client.bodies import Address

Json = Mapping[str, Any]
T = TypeVar("T")

FINAL = frozenset(
    {
        *("delivered", "bounced", "complained", "rejected", "failed"),
        *("suppressed", "canceled"),
    }
)
SETTLED = FINAL | {"uncertain"}
"""Statuses at which a message waits for nothing, or for a person."""

SENT = SETTLED | {"submitted", "deferred"}
"""The same, and those that say that the message has left. A relay reports no more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """What became of one recipient."""

    address: str
    field: str
    status: str
    reason: str | None
    smtp_code: str | None
    enhanced_code: str | None
    bounce_type: str | None
    updated_at: datetime | None
    raw: Json = dataclasses.field(repr=False, compare=False)

    @classmethod
    def read(cls, raw: Json) -> Self:
        """Read one from JSON."""
        return cls(
            address=raw["address"],
            field=raw.get("field", "to"),
            status=raw["status"],
            reason=raw.get("reason"),
            smtp_code=raw.get("smtp_code"),
            enhanced_code=raw.get("enhanced_code"),
            bounce_type=raw.get("bounce_type"),
            updated_at=instant(raw.get("updated_at")),
            raw=raw,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredAttachment:
    """A file of a message, without its octets."""

    id: str
    filename: str | None
    content_type: str
    size: int
    disposition: str | None
    raw: Json = dataclasses.field(repr=False, compare=False)

    @classmethod
    def read(cls, raw: Json) -> Self:
        """Read one from JSON."""
        return cls(
            id=raw["id"],
            filename=raw.get("filename"),
            content_type=raw.get("content_type", "application/octet-stream"),
            size=raw.get("size", 0),
            disposition=raw.get("disposition"),
            raw=raw,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """A message and what became of it."""

    id: str
    thread_id: str | None
    identity_id: str | None
    direction: str
    status: str
    reason: str | None
    from_: Address | None
    to: Sequence[Address]
    cc: Sequence[Address]
    bcc: Sequence[Address]
    reply_to: Sequence[Address]
    subject: str | None
    sent_at: datetime | None
    received_at: datetime | None
    kind: str | None
    labels: Sequence[str]
    metadata: Mapping[str, str]
    flags: Sequence[str]
    attachments: Sequence[StoredAttachment]
    deliveries: Sequence[Delivery]
    rfc_message_id: str | None
    in_reply_to: str | None
    provider_message_id: str | None
    extracted_text: str | None = dataclasses.field(repr=False)
    raw: Json = dataclasses.field(repr=False, compare=False)

    @property
    def is_final(self) -> bool:
        """Tell whether nothing more is expected."""
        return self.status in FINAL

    @property
    def is_uncertain(self) -> bool:
        """Tell whether it may have been sent; a person has to find out."""
        return self.status == "uncertain"

    @classmethod
    def read(cls, raw: Json) -> Self:
        """Read one from JSON."""
        return cls(
            id=raw["id"],
            thread_id=raw.get("thread_id"),
            identity_id=raw.get("identity_id"),
            direction=raw.get("direction", "outbound"),
            status=raw["status"],
            reason=raw.get("reason"),
            from_=None if raw.get("from") is None else _address(raw["from"]),
            to=_each(_address, raw, "to"),
            cc=_each(_address, raw, "cc"),
            bcc=_each(_address, raw, "bcc"),
            reply_to=_each(_address, raw, "reply_to"),
            subject=raw.get("subject"),
            sent_at=instant(raw.get("sent_at")),
            received_at=instant(raw.get("received_at")),
            kind=raw.get("kind"),
            labels=tuple(raw.get("labels") or ()),
            metadata=dict(raw.get("metadata") or {}),
            flags=tuple(raw.get("flags") or ()),
            attachments=_each(StoredAttachment.read, raw, "attachments"),
            deliveries=_each(Delivery.read, raw, "deliveries"),
            rfc_message_id=raw.get("rfc_message_id"),
            in_reply_to=raw.get("in_reply_to"),
            provider_message_id=raw.get("provider_message_id"),
            extracted_text=raw.get("extracted_text"),
            raw=raw,
        )


def _address(raw: Json) -> Address:
    return Address(raw["address"], raw.get("name"))


def _each(read: Callable[[Json], T], raw: Json, name: str) -> tuple[T, ...]:
    return tuple(read(each) for each in raw.get(name) or ())


def instant(value: object) -> datetime | None:
    """Return an instant of the API; None for what is none."""
    try:
        return datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        return None
