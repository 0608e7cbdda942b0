"""Six ways to break Pylota's promise, laid over a process before it starts.

Only the launchers of the chaos run read ``CHAOS_MUTANT``; the product knows nothing of
it. Each is a mistake that systems of this kind have been shipped with.
"""

import os
from collections.abc import Callable
from types import ModuleType
from typing import Any, Final
from uuid import UUID

MUTANT: Final = "CHAOS_MUTANT"


def _replace(module: ModuleType, name: str, broken: Callable[..., Any]) -> Any:
    """Put the mistake in a function's place; return the function.

    Raises AttributeError when the product has none of that name any more.
    """
    sound = getattr(module, name)
    setattr(module, name, broken)
    return sound


def retry_after_doubt() -> None:
    """A connection that is lost after the final dot counts as not sent."""
    from outbound.transports import smtp
    from outbound.transports.base import RetryClass, RetryLater

    def unknown(dialogue: Any, error: OSError) -> RetryLater:
        return RetryLater(RetryClass.RELAY, "connection_lost", str(error))

    _replace(smtp, "_unknown", unknown)


def claim_released_by_age() -> None:
    """A claim that ran out goes back to the queue, as if nothing had been sent."""
    from outbound import alarms, claims

    def release(message: Any, state: Any, *, now: Any) -> None:
        _set_free(message)

    for module in (alarms, claims):
        _replace(module, "lapse", release)


def claim_without_guard() -> None:
    """A message is taken by whoever is rung, whether or not it has been taken."""
    from delivery.changes import lock_message
    from mailboxes.statuses import MessageStatus
    from outbound import claims, deliver
    from outbound.senders import Waiting

    def take(message_id: str, mime: bytes, *, token: UUID) -> Any:
        message = lock_message(message_id)
        if message is not None and message.status == MessageStatus.QUEUED:
            _set_free(message)
        return guarded(message_id, mime, token=token)

    guarded = _replace(claims, "_take", take)
    _replace(deliver, "waiting", lambda name: Waiting(name, needs_slot=False))


def _set_free(message: Any) -> None:
    from core.clock import database_now
    from delivery.models import OutboundState

    OutboundState.objects.filter(message=message, claim_token__isnull=False).update(
        claim_token=None,
        claimed_at=None,
        retry_at=None,
        rung_at=None,
        dispatch_at=database_now(),
    )


def checked_then_inserted() -> None:
    """The key is looked up and, some time later, written: no lock, no constraint."""
    from outbound import insert, ledger

    guard = " WHERE l.expires_at <= clock_timestamp() + %(clock_offset)s"
    for name in ("_INTO_NEW", "_INTO_KNOWN"):
        before, found, after = getattr(insert, name).rpartition(guard)
        if not found:
            raise LookupError(f"{name} has another guard now")
        end = after.index("RETURNING l.message_id")
        setattr(insert, name, f"{before} {after[end:]}")
    _replace(ledger, "hold_key", lambda slot: None)


def events_apart() -> None:
    """What happened is stored first, and told of in a transaction that follows."""
    from django.db import transaction

    from delivery import changes

    def later(events: Any, **given: Any) -> None:
        def apart() -> None:
            with transaction.atomic():
                publish(events, **given)

        transaction.on_commit(apart)

    publish = _replace(changes, "publish", later)


def no_alarm() -> None:
    """Nobody looks for claims whose worker has gone."""
    from outbound import alarms

    _replace(alarms, "sweep_claims", lambda: 0)


MUTANTS: Final[dict[str, Callable[[], None]]] = {
    "retry_after_doubt": retry_after_doubt,
    "claim_released_by_age": claim_released_by_age,
    "claim_without_guard": claim_without_guard,
    "checked_then_inserted": checked_then_inserted,
    "events_apart": events_apart,
    "no_alarm": no_alarm,
}


def mutate() -> None:
    """Break this process in the way that its environment names, if it names one."""
    if name := os.environ.get(MUTANT):
        MUTANTS[name]()
