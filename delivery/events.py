"""What a provider says of one recipient, in one form for every provider."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from delivery.statuses import DeliveryKind, EventSource


@dataclass(frozen=True, slots=True)
class DeliveryEvent:
    """One provider event (the page, "Delivery events").

    ``event_id`` is unique per source. ``hard`` only means something for a bounce, and
    ``by_provider_list`` for a hard one: the provider holds the address on a list of its
    own. ``tag`` is our own message id, where the event carries it back;
    ``rfc_message_id`` the Message-ID that the provider says it gave the mail.
    """

    source: EventSource
    event_id: str
    provider_message_id: str | None
    sender: str
    recipient: str
    kind: DeliveryKind
    occurred_at: datetime
    subject: str | None = None
    hard: bool = False
    smtp_code: str | None = None
    enhanced_code: str | None = None
    smtp_response: str | None = None
    tag: str | None = None
    by_provider_list: bool = False
    rfc_message_id: str | None = None

    def payload(self) -> dict[str, Any]:
        """Return the JSON form that the inbox stores."""
        return {
            "provider_message_id": self.provider_message_id,
            "sender": self.sender,
            "recipient": self.recipient,
            "kind": str(self.kind),
            "subject": self.subject,
            "hard": self.hard,
            "smtp_code": self.smtp_code,
            "enhanced_code": self.enhanced_code,
            "smtp_response": self.smtp_response,
            "tag": self.tag,
            "by_provider_list": self.by_provider_list,
            "rfc_message_id": self.rfc_message_id,
        }

    @classmethod
    def stored(
        cls,
        source: str,
        event_id: str,
        occurred_at: datetime,
        payload: dict[str, Any],
    ) -> "DeliveryEvent":
        """Return the event that an inbox row holds."""
        fields = {**payload, "kind": DeliveryKind(payload["kind"])}
        return cls(
            source=EventSource(source),
            event_id=event_id,
            occurred_at=occurred_at,
            **fields,
        )
