"""Refusals: each says what it is once, and one handler turns it into a response.

Codes are public (REST contract, section 4): add, never rename.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any, ClassVar


@dataclass(frozen=True, slots=True)
class FieldError:
    """One thing wrong with a request: where, and what."""

    path: str
    message: str


MOST_ERRORS = 50
"""Errors that one answer lists."""
LONGEST_PATH = 200


def listed(errors: Iterable[FieldError]) -> list[dict[str, str]]:
    """Return errors as an answer lists them: not all, and no path without an end.

    Paths hold names that the client chose; one answer must not be larger than the
    request that it refuses.
    """
    return [
        {"path": error.path[:LONGEST_PATH], "message": error.message}
        for error in islice(errors, MOST_ERRORS)
    ]


class PylotaError(Exception):
    """A refusal with a stable code. Anything else is a bug and stays a 500.

    ``detail`` is free text for a person; ``fix`` is the one next step; ``details``
    carries what a client may act on.
    """

    code: ClassVar[str]
    status: ClassVar[int]
    retryable: ClassVar[bool] = False
    fix: str = ""

    def __init__(
        self, detail: str, *, details: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__(detail)
        self.detail = detail
        self.details: dict[str, Any] = dict(details or {})


class InvalidRequest(PylotaError):
    """The request does not have the documented form; ``details.errors`` lists where."""

    code = "invalid_request"
    status = 400
    fix = "Correct the fields listed in details.errors and send the request again."

    def __init__(
        self,
        detail: str,
        *,
        errors: Iterable[FieldError] = (),
        details: Mapping[str, Any] | None = None,
    ) -> None:
        found = listed(errors)
        super().__init__(detail, details={**(details or {}), "errors": found})
        if not found:
            self.fix = "Correct what the message names and send the request again."

    @classmethod
    def at(cls, path: str, message: str) -> "InvalidRequest":
        """Refuse because of one field."""
        return cls(message, errors=[FieldError(path, message)])


class AddressInvalid(PylotaError):
    """What was given as an address is none (RFC 5321 section 4.1.2)."""

    code = "address_invalid"
    status = 400
    fix = "Use an address of the form name@example.com, at most 254 octets long."


class AddressUnsupported(PylotaError):
    """The part before the ``@`` is not ASCII; most mail servers cannot take it."""

    code = "address_unsupported"
    status = 400
    fix = "Use the recipient's ASCII address; the domain may hold any script."


class Unauthenticated(PylotaError):
    """No usable API key; the same answer for every cause."""

    code = "unauthenticated"
    status = 401
    fix = "Send the header Authorization: Bearer pmk_… with a live API key."


class KeyRevoked(PylotaError):
    """The key was right, and has been revoked."""

    code = "key_revoked"
    status = 401
    fix = "Use another key; this one has been revoked."


class KeyExpired(PylotaError):
    """The key was right, and its time has ended."""

    code = "key_expired"
    status = 401
    fix = "Use another key; this one has expired."


class PermissionDenied(PylotaError):
    """The key lacks the scope that this route needs."""

    code = "permission_denied"
    status = 403
    fix = "Use a key that holds the scopes in details.required."


class ScopeDenied(PylotaError):
    """The route or field is above the level of the key."""

    code = "scope_denied"
    status = 403
    fix = "Use a key of a wider level."


class _NotFound(PylotaError):
    status = 404
    fix = "Check the id, and that the key reaches it."


class RouteNotFound(_NotFound):
    """No such path."""

    code = "route_not_found"
    fix = "Check the path; /openapi.json lists every route."


class TenantNotFound(_NotFound):
    """No such tenant within the reach of the key."""

    code = "tenant_not_found"


class IdentityNotFound(_NotFound):
    """No such identity within the reach of the key."""

    code = "identity_not_found"


class MessageNotFound(_NotFound):
    """No such message in this mailbox."""

    code = "message_not_found"


class ThreadNotFound(_NotFound):
    """No such thread in this mailbox."""

    code = "thread_not_found"


class KeyNotFound(_NotFound):
    """No such API key within the reach of the calling one."""

    code = "key_not_found"


class KeyScopeExceeded(PylotaError):
    """The key that is made or touched reaches further than the calling one."""

    code = "key_scope_exceeded"
    status = 403
    fix = "Ask for no more than the calling key holds, or call with a wider key."

    def __init__(self, detail: str = "That key is wider than the calling one.") -> None:
        super().__init__(detail)


class KeyLimitReached(PylotaError):
    """The tenant has as many live keys as it may have."""

    code = "key_limit_reached"
    status = 422
    fix = "Revoke a key that nobody uses any more, then try again."


class SuppressionNotFound(_NotFound):
    """This tenant does not suppress the address."""

    code = "suppression_not_found"
    fix = "Check the address; the list of suppressions takes it as a filter."


class ListEntryNotFound(_NotFound):
    """This list does not hold the entry."""

    code = "list_entry_not_found"
    fix = "Check the entry, its direction and its kind."


class IdempotencyKeyRequired(PylotaError):
    """The request names no key, so a retry could not be told from a new message."""

    code = "idempotency_key_required"
    status = 400
    fix = "Send one Idempotency-Key per message, and the same one with each retry."


class InvalidIdempotencyKey(PylotaError):
    """The key is not 1 to 255 printable ASCII characters."""

    code = "invalid_idempotency_key"
    status = 400
    fix = "Use 1 to 255 printable ASCII characters (0x20 to 0x7E)."


class IdempotencyConflict(PylotaError):
    """The key stands for another request."""

    code = "idempotency_conflict"
    status = 409
    fix = "Use a new key for a new message, or repeat the original body."


class RequestInProgress(PylotaError):
    """A request under this key is being worked on."""

    code = "request_in_progress"
    status = 409
    retryable = True
    fix = "Wait a moment, then repeat with the same Idempotency-Key."


class MethodNotAllowed(PylotaError):
    """The path exists, the verb does not."""

    code = "method_not_allowed"
    status = 405
    fix = "Use a verb listed in the Allow header."


class CursorExpired(PylotaError):
    """The cursor of a list is more than 24 hours old."""

    code = "cursor_expired"
    status = 410
    fix = "Read the list again from its first page, without a cursor."


class LengthRequired(PylotaError):
    """A body came without a Content-Length (chunked bodies are not read)."""

    code = "length_required"
    status = 411
    fix = "Send the body with a Content-Length header."


class PayloadTooLarge(PylotaError):
    """The request body is over 7 MiB."""

    code = "payload_too_large"
    status = 413
    fix = "Send less in one request."


class RateLimited(PylotaError):
    """Too many requests in the window of one bucket."""

    code = "rate_limited"
    status = 429
    retryable = True
    fix = "Wait for Retry-After seconds, then repeat with the same Idempotency-Key."


class InternalError(PylotaError):
    """A bug of ours; what the server log says is found by the request id."""

    code = "internal_error"
    status = 500
    retryable = True
    fix = "Repeat later with the same Idempotency-Key; report the request_id."


class Unavailable(PylotaError):
    """Something that we need is away; nothing was stored."""

    code = "unavailable"
    status = 503
    retryable = True
    fix = "Repeat in a few seconds with the same Idempotency-Key."


class ObjectStoreAway(Unavailable):
    """The object store failed, or did not answer within 10 s."""


class DeadlinePassed(PylotaError):
    """The request took longer than 30 s, and nothing was stored."""

    code = "timeout"
    status = 504
    retryable = True
    fix = "Repeat with the same Idempotency-Key."
