"""Examples of a send and its answers, for the API's description."""

from typing import Any, Final

from drf_spectacular.utils import OpenApiExample

from outbound.api.changes import MessageChanges, Resolution, ThreadChanges
from outbound.requests import SendRequest

_ULID = "01K9ZT3N4C6Y8QF5R7W2V1X0AB"
_AT = "2026-11-02T09:15:20.114Z"
MESSAGE_SHOWN: Final[dict[str, Any]] = {
    "id": f"msg_{_ULID}",
    "thread_id": f"thr_{_ULID}",
    "identity_id": f"idn_{_ULID}",
    "direction": "outbound",
    "status": "queued",
    "reason": None,
    "from": {"address": "bookings@mail.example.com", "name": "Acme Bookings"},
    "to": [
        {"address": "jo@example.net", "name": None},
        {"address": "lee@example.org", "name": "Lee"},
    ],
    "cc": [],
    "bcc": [],
    "reply_to": [],
    "delivered_to": None,
    "is_primary_recipient": None,
    "subject": "Your booking 2291",
    "sent_at": _AT,
    "received_at": _AT,
    "extracted_text": "See you on Friday.",
    "attachments": [],
    "labels": ["bookings"],
    "metadata": {"booking": "2291"},
    "kind": "transactional",
    "trust": None,
    "rfc_message_id": f"{_ULID.lower()}@mail.example.com",
    "in_reply_to": None,
    "provider_message_id": None,
    "deliveries": [
        {
            "address": address,
            "field": "to",
            "status": "queued",
            "reason": None,
            "smtp_code": None,
            "enhanced_code": None,
            "bounce_type": None,
            "updated_at": _AT,
        }
        for address in ("jo@example.net", "lee@example.org")
    ],
    "evidence": None,
    "flags": [],
}

BOOKING: Final = OpenApiExample(
    "A booking", value=SendRequest.example, request_only=True
)
ACCEPTED: Final = OpenApiExample(
    "Accepted",
    value={**MESSAGE_SHOWN, "deduplicated": False},
    response_only=True,
    status_codes=["202"],
)
REPLAYED: Final = OpenApiExample(
    "The same request again",
    value={**MESSAGE_SHOWN, "deduplicated": True},
    response_only=True,
    status_codes=["202"],
)
CONFLICT: Final = OpenApiExample(
    "Another body under the same key",
    value={
        "error": {
            "code": "idempotency_conflict",
            "message": "This Idempotency-Key was used for another request.",
            "retryable": False,
            "fix": "Use a new key for a new message, or repeat the original body.",
            "request_id": f"req_{_ULID}",
            "details": {"original_message_id": f"msg_{_ULID}"},
        }
    },
    response_only=True,
    status_codes=["409"],
)
FILED: Final = OpenApiExample(
    "Read, and urgent", value=MessageChanges.example, request_only=True
)
RESOLVED: Final = OpenApiExample(
    "It arrived", value=Resolution.example, request_only=True
)
THREAD_SHOWN: Final[dict[str, Any]] = {
    "id": f"thr_{_ULID}",
    "subject": "Your booking 2291",
    "snippet": "See you on Friday.",
    "labels": ["bookings"],
    "archived": False,
    "participants": MESSAGE_SHOWN["to"],
    "message_count": 1,
    "unread_count": 0,
    "first_at": _AT,
    "last_at": _AT,
    "last_inbound_at": None,
    "last_direction": "outbound",
    "hold": None,
}
THREAD_FILED: Final = OpenApiExample(
    "Read and archived", value=ThreadChanges.example, request_only=True
)
ATTEMPT_SHOWN: Final[dict[str, Any]] = {
    "n": 1,
    "provider": "smtp",
    "claimed_at": _AT,
    "phase": "answered",
    "finished_at": _AT,
    "result": "retry",
    "code": "451",
    "detail": "4.3.0 try again",
}
_TAKEN: Final = {"n": 2, "result": "accepted", "code": "250", "detail": None}
ATTEMPTS: Final = OpenApiExample(
    "A relay took it the second time",
    value={"data": [ATTEMPT_SHOWN, {**ATTEMPT_SHOWN, **_TAKEN}], "next_cursor": None},
    response_only=True,
    status_codes=["200"],
)
