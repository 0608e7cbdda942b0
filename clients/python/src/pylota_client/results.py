"""What the API answers to sends and readers of events, typed. ``raw`` is the JSON."""

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Self

from pylota_client.messages import Json, Message, instant


@dataclass(frozen=True, slots=True, kw_only=True)
class Accepted:
    """A send that was accepted.

    ``message`` is the state at that moment, also when ``deduplicated``: an earlier
    request with this ``idempotency_key`` had been accepted, and this one sent nothing.
    """

    message: Message
    deduplicated: bool
    idempotency_key: str

    @property
    def id(self) -> str:
        """Return the message's id."""
        return self.message.id

    @property
    def raw(self) -> Json:
        """Return the answer's JSON."""
        return self.message.raw

    @classmethod
    def read(cls, raw: Json, *, idempotency_key: str) -> Self:
        """Read one from JSON."""
        return cls(
            message=Message.read(raw),
            deduplicated=raw.get("deduplicated") is True,
            idempotency_key=idempotency_key,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class DryRunRecipient:
    """What one recipient would get: ``queued``, or ``suppressed`` for a reason."""

    address: str
    field: str
    status: str
    reason: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DryRun:
    """What a send would do; nothing of it has been done."""

    would_send: bool
    recipients: Sequence[DryRunRecipient]
    raw: Json = dataclasses.field(repr=False, compare=False)

    @classmethod
    def read(cls, raw: Json) -> Self:
        """Read one from JSON."""
        return cls(
            would_send=raw["would_send"] is True,
            recipients=tuple(
                DryRunRecipient(
                    address=each["address"],
                    field=each.get("field", "to"),
                    status=each["status"],
                    reason=each.get("reason"),
                )
                for each in raw["recipients"]
            ),
            raw=raw,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something that happened; ``id`` is the same however often it is told."""

    id: str
    type: str
    occurred_at: datetime | None
    tenant_id: str | None
    identity_id: str | None
    sequence: int | None
    data: Mapping[str, Any] = dataclasses.field(repr=False)
    raw: Json = dataclasses.field(repr=False, compare=False)

    @classmethod
    def read(cls, raw: Json) -> Self:
        """Read one from JSON."""
        return cls(
            id=raw["id"],
            type=raw["type"],
            occurred_at=instant(raw.get("occurred_at")),
            tenant_id=raw.get("tenant_id"),
            identity_id=raw.get("identity_id"),
            sequence=raw.get("sequence"),
            data=raw.get("data") or {},
            raw=raw,
        )
