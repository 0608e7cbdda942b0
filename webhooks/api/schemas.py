"""The shapes of what is told to clients, for the API's description."""

from datetime import datetime
from typing import Any, ClassVar

from pydantic import Field

from core.schemas import Page, Shape


class EventOut(Shape):
    """Something that happened; `webhooks` describes the `data` of each type."""

    example: ClassVar[dict[str, Any]] = {
        "id": "evt_01K9ZT3N4C6Y8QF5R7W2V1X0AB",
        "type": "message.bounced",
        "api_version": "2026-10-01",
        "occurred_at": "2026-11-02T09:15:20.114Z",
        "tenant_id": "ten_01K9ZT3N4C6Y8QF5R7W2V1X0AB",
        "identity_id": "idn_01K9ZT3N4C6Y8QF5R7W2V1X0AB",
        "sequence": 77,
        "data": {
            "message_id": "msg_01K9ZT3N4C6Y8QF5R7W2V1X0AB",
            "recipient": "lee@example.org",
            "bounce_type": "hard",
            "smtp_code": "550",
            "smtp_response": "5.1.1 no such user",
            "suppressed": True,
        },
    }

    id: str
    type: str
    api_version: str
    occurred_at: datetime
    tenant_id: str | None
    identity_id: str | None
    sequence: int | None = Field(
        description="Strictly rising for each identity; null where there is none."
    )
    data: dict[str, Any]


class EventPage(Page):
    """Events, oldest first."""

    data: list[EventOut]
