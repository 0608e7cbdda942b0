"""What went wrong, typed: one class for each thing that a caller does about it.

A code that this client does not know stays a ``PylotaError``: codes are added to the
API without a new version of it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from pylota_client.failures import NO_ANSWER, UNEXPECTED, Failure

if TYPE_CHECKING:
    from pylota_client.messages import Message


@dataclass(frozen=True, slots=True)
class FieldError:
    """One field of a request that was refused, and why."""

    path: str
    message: str


class PylotaError(Exception):
    """A call failed; ``code`` is stable, ``fix`` is the one next step.

    ``status`` is the HTTP status, None without an answer; ``request_id`` is what the
    server's log knows the request by; ``attempts`` is how many were made.
    ``retryable`` tells whether the same request may succeed later, ``retry_after`` in
    how many seconds if the server said. ``gave_up`` is true when it was repeated until
    the time was up, or would have had to wait longer. ``may_be_accepted`` is true when
    a send may have been taken all the same: repeat it with ``idempotency_key``.
    """

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure)
        self.failure = failure
        self.code = failure.code
        self.message = failure.message
        self.fix = failure.fix
        self.status = failure.status
        self.retryable = failure.retryable
        self.request_id = failure.request_id
        self.details = failure.details
        self.retry_after = failure.retry_after
        self.idempotency_key = failure.idempotency_key
        self.may_be_accepted = failure.may_be_accepted
        self.gave_up = failure.gave_up
        self.attempts = failure.attempts

    def __str__(self) -> str:
        """Say what happened, what to do, and what is known of the send."""
        return str(self.failure)


class NoAnswer(PylotaError):
    """The network failed: no connection, no answer, or half of one."""


class UnexpectedAnswer(PylotaError):
    """What answered is not a Pylota: something before it, or a wrong ``base_url``."""


class ServerFault(PylotaError):
    """Something is broken or away on the server's side."""


class InvalidRequest(PylotaError):
    """The request is wrong as it stands; ``errors`` lists the fields."""

    @property
    def errors(self) -> list[FieldError]:
        """Return the fields that were refused."""
        listed = self.details.get("errors")
        return [
            FieldError(str(each.get("path", "")), str(each.get("message", "")))
            for each in (listed if isinstance(listed, list) else [])
            if isinstance(each, Mapping)
        ]


class Unauthenticated(PylotaError):
    """The API key is wrong, expired or revoked; ``code`` says which, if known."""


class PermissionDenied(PylotaError):
    """The API key may not do this."""


class NotFound(PylotaError):
    """There is no such thing within the reach of the key; ``code`` says what."""


class IdempotencyConflict(PylotaError):
    """The idempotency key already stands for another request."""

    @property
    def original_message_id(self) -> str | None:
        """Return the message that the key stands for, if the server said."""
        found = self.details.get("original_message_id")
        return found if isinstance(found, str) else None


class RequestInProgress(PylotaError):
    """An earlier request with this idempotency key is still being worked on."""


class ThreadBusy(PylotaError):
    """Another send of the thread is on its way out."""


class DomainNotReady(PylotaError):
    """The sending domain is still being verified."""


class IdentityPaused(PylotaError):
    """The identity may not send for now."""


class TenantSuspended(PylotaError):
    """The tenant may not send."""


class RateLimited(PylotaError):
    """Too many requests; ``retry_after`` says how long to wait."""


class _Resets(PylotaError):
    @property
    def resets_at(self) -> datetime | None:
        """Return when it may be tried again, if the server said."""
        try:
            return datetime.fromisoformat(str(self.details.get("resets_at")))
        except ValueError:
            return None


class DailyCapReached(_Resets):
    """The identity or its tenant has sent its last message of the day."""


class BillingLimit(_Resets):
    """The allowance is used up."""


class CursorExpired(PylotaError):
    """A list was read too slowly; start it again."""


class WaitTimedOut(PylotaError):
    """A message did not get where it was waited for; ``last`` is its latest state."""

    def __init__(self, failure: Failure, last: "Message | None" = None) -> None:
        super().__init__(failure)
        self.args = (failure, last)
        self.last = last


_CLASSES: Mapping[str, type[PylotaError]] = {
    NO_ANSWER: NoAnswer,
    UNEXPECTED: UnexpectedAnswer,
    **dict.fromkeys(
        ("internal_error", "upstream_error", "unavailable", "timeout"), ServerFault
    ),
    **dict.fromkeys(
        (
            *("invalid_request", "address_invalid", "address_unsupported"),
            *("idempotency_key_required", "invalid_idempotency_key"),
            *("header_not_allowed", "marketing_requirements_missing"),
            *("too_many_recipients", "message_too_large", "payload_too_large"),
        ),
        InvalidRequest,
    ),
    **dict.fromkeys(("unauthenticated", "key_expired", "key_revoked"), Unauthenticated),
    **dict.fromkeys(
        ("permission_denied", "scope_denied", "key_scope_exceeded"), PermissionDenied
    ),
    "idempotency_conflict": IdempotencyConflict,
    "request_in_progress": RequestInProgress,
    "thread_busy": ThreadBusy,
    "domain_not_ready": DomainNotReady,
    "identity_paused": IdentityPaused,
    "tenant_suspended": TenantSuspended,
    **dict.fromkeys(("rate_limited", "upstream_rate_limited"), RateLimited),
    "daily_cap_reached": DailyCapReached,
    "billing_limit": BillingLimit,
    "cursor_expired": CursorExpired,
}


def error_of(failure: Failure) -> PylotaError:
    """Return the error that a failure is raised as."""
    found = _CLASSES.get(failure.code, PylotaError)
    if found is PylotaError and failure.code.endswith("_not_found"):
        found = NotFound
    return found(failure)
