"""Submission to a relay over SMTP (the page, "SMTP relay"; tables, section 6).

The phase is known by where we stand: everything in ``smtp_dialogue`` is before the
final dot and means "not sent". Once the dot is being written, only a complete reply is
an answer; anything else is unknown, and never tried again.
"""

from contextlib import ExitStack

from core.points import reach
from outbound.transports.base import (
    Accepted,
    ClaimLost,
    OutgoingMessage,
    RetryClass,
    RetryLater,
    TransportResult,
    UncertainReason,
    Unknown,
)
from outbound.transports.smtp_dialogue import Dialogue, NotSent, SmtpSettings
from outbound.transports.smtp_wire import Reply
from outbound.transports.told import LONGEST_DETAIL


class SmtpTransport(SmtpSettings):
    """Speaks SMTP to a relay. Knows nothing of rows, retries or Celery."""

    def send(self, message: OutgoingMessage) -> TransportResult:
        """Make one submission and say how it ended.

        Raises ClaimLost when the claim ended before the final dot: nothing was sent.
        """
        with ExitStack() as stack:
            dialogue = Dialogue(self, message, stack)
            try:
                refusal = dialogue.walk()
            except NotSent as error:
                if error.in_step:
                    dialogue.session.leave("QUIT")
                return _later(dialogue, error.code, str(error))
            except OSError as error:
                return _lost(dialogue, error)
            except ClaimLost:
                raise
            except Exception as error:  # a fault of ours: nothing was sent even so
                return _later(dialogue, "call_broke", type(error).__name__)
            if refusal is not None:
                dialogue.session.leave("QUIT")
                return refusal
            return _final_dot(dialogue, message)


def _final_dot(dialogue: Dialogue, message: OutgoingMessage) -> TransportResult:
    """Write the dot: from here on, silence is unknown."""
    try:
        reply = dialogue.session.final_dot(dialogue.final_seconds)
    except OSError as error:
        return _unknown(dialogue, error)
    reach("smtp.after_reply")
    dialogue.session.leave("QUIT")
    return _answered(dialogue, message, reply)


def _answered(
    dialogue: Dialogue, message: OutgoingMessage, reply: Reply
) -> TransportResult:
    told = dialogue.told(reply)
    if reply.code == 250:
        assert message.relay is not None  # noqa: S101  the dialogue had one
        return Accepted(
            provider_message_id=f"smtp:{message.relay.host}:{message.rfc_message_id}",
            rfc_message_id=message.rfc_message_id,
            refused=tuple(dialogue.refused),
            deferred=tuple(recipient for recipient, _ in dialogue.deferred),
            detail=told,
        )
    if reply.is_for_now:
        return _later(dialogue, str(reply.code), told)
    if reply.is_for_good:
        return dialogue.rejected(str(reply.code), told)
    return Unknown(UncertainReason.CONNECTION_LOST, f"no answer to the dot: {told}")


def _unknown(dialogue: Dialogue, error: OSError) -> Unknown:
    if dialogue.deadline.has_passed:
        return Unknown(UncertainReason.TIMEOUT, "the call's time ended after the dot")
    if isinstance(error, TimeoutError):
        return Unknown(UncertainReason.TIMEOUT, "no reply to the final dot in time")
    detail = f"after the final dot: {error}"[:LONGEST_DETAIL]
    return Unknown(UncertainReason.CONNECTION_LOST, detail)


def _lost(dialogue: Dialogue, error: OSError) -> RetryLater:
    if dialogue.deadline.has_passed:
        return _later(
            dialogue, "deadline", f"{dialogue.step}: the call's time was over"
        )
    code = "timeout" if isinstance(error, TimeoutError) else "connection_lost"
    return _later(dialogue, code, f"{dialogue.step}: {error}")


def _later(dialogue: Dialogue, code: str, detail: str) -> RetryLater:
    refused = tuple(dialogue.refused)
    return RetryLater(RetryClass.RELAY, code, detail[:LONGEST_DETAIL], refused)
