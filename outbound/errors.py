"""Why a send is refused; each says what happened and the one next step."""

from typing import ClassVar

from core.errors import FieldError, PylotaError, listed


class TenantSuspended(PylotaError):
    """The tenant may not send."""

    code = "tenant_suspended"
    status = 403
    fix = "Ask the operator of this deployment."


class IdentityPaused(PylotaError):
    """The identity may not send for now."""

    code = "identity_paused"
    status = 409
    fix = "Resume the identity, then repeat with the same Idempotency-Key."


class IdentityOwnerRequired(PylotaError):
    """Nobody is accountable for what the identity sends."""

    code = "identity_owner_required"
    status = 409
    fix = "Set the identity's owner (name and email)."


class TooManyRecipients(PylotaError):
    """More recipients than the tenant's policy allows in one message."""

    code = "too_many_recipients"
    status = 400
    fix = "Split the message; details.limit is the most that one may have."


class TestModeRecipient(PylotaError):
    """A test tenant reaches nobody outside."""

    __test__: ClassVar[bool] = False
    code = "test_mode_recipient"
    status = 403
    fix = (
        "Write to an address @simulator.invalid or of this deployment,"
        " or use a live tenant."
    )


class MarketingRequirementsMissing(PylotaError):
    """Marketing needs a way out and a consent on record."""

    code = "marketing_requirements_missing"
    status = 400
    fix = "Give unsubscribe.url (https) and consent, or send another kind."


class AutoReplyNotAllowed(PylotaError):
    """An automatic reply may not be sent here."""

    code = "auto_reply_not_allowed"
    status = 409
    fix = "Let a person answer, or send another kind."


class LoopDetected(PylotaError):
    """Two machines seem to answer each other; ``details.hop`` counts the rounds."""

    code = "loop_detected"
    status = 409
    fix = "Stop the automation that answers here; a person must act."


class ThreadBusy(PylotaError):
    """Another send holds the thread, and did not let go of it within 10 s."""

    code = "thread_busy"
    status = 409
    retryable = True
    fix = "Repeat after details.retry_after seconds with the same Idempotency-Key."


class AllRecipientsSuppressed(PylotaError):
    """A dry run found nobody who may be written to: addresses are suppressed."""

    code = "all_recipients_suppressed"
    status = 422
    fix = "Lift the suppressions named in details.recipients, or write to others."


class RecipientBlocked(PylotaError):
    """A dry run found nobody who may be written to: lists and rules forbid it."""

    code = "recipient_blocked"
    status = 422
    fix = "Change the tenant's send lists or rules, or write to others."


class AttachmentNotFound(PylotaError):
    """No such file within the reach of the key, or behind the link."""

    code = "attachment_not_found"
    status = 404
    fix = "Check the ids, and that the key reaches them; a link expires."


class AttachmentGone(AttachmentNotFound):
    """A file that should be forwarded is no longer kept."""

    fix = "Forward with include_attachments false, or attach the files yourself."


class RawExpired(PylotaError):
    """The bytes of a message are no longer kept; the message itself is."""

    code = "raw_expired"
    status = 410
    fix = "Read the message without its raw form; these bytes are gone for good."


class HeaderNotAllowed(PylotaError):
    """A custom header that callers may not set."""

    code = "header_not_allowed"
    status = 400
    fix = "Drop the headers listed in details.errors; X-… names are free."


class DomainNotReady(PylotaError):
    """The sending domain or address is still being verified."""

    code = "domain_not_ready"
    status = 409
    retryable = True
    fix = "Finish the domain's verification, then repeat with the same key."


class TransportUnavailable(PylotaError):
    """This deployment has no transport for the sending domain."""

    code = "transport_unavailable"
    status = 422
    fix = "Configure the transport named in details.reason, or use another domain."


class NotCancelable(PylotaError):
    """The message has left the queue, or may be leaving it at this moment."""

    code = "not_cancelable"
    status = 409
    fix = "Read the message again: its status tells what became of it."


class MessageTooLarge(PylotaError):
    """The composed message is larger than any transport takes."""

    code = "message_too_large"
    status = 413
    fix = "Shrink the attachments to about 3.6 MiB, or let the policy send links."


def placed(refusal: PylotaError, *errors: FieldError) -> PylotaError:
    """Return the refusal with the fields that it is about in its details."""
    refusal.details["errors"] = listed(errors)
    return refusal
