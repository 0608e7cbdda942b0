"""Something happens in a gap between ring, claim, call, round and record: whatever.

Each gap of a send meets each event and each answer; then a day and more passes. No
recipient ever has two copies, nothing is left behind, and the books add up.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from functools import partial
from itertools import cycle
from typing import Any, Final

import pytest
from django.db import connection, transaction
from pytest_django import Settings

from core import clock, points
from core.clock import database_now
from delivery import inbox
from delivery.errors import NotUncertain
from delivery.events import DeliveryEvent
from delivery.models import OutboundState, ProviderEvent
from delivery.services import apply_event, resolve
from delivery.statuses import DeliveryKind, EventSource
from domains.models import Domain
from domains.statuses import DomainState
from mailboxes.identity_services import delete_identity
from mailboxes.keyring_services import rotate_key
from mailboxes.models import Message, Thread
from mailboxes.services import pause_identity
from mailboxes.statuses import KeyPurpose
from mailboxes.tenant_services import suspend_tenant
from outbound.alarms import sweep_claims
from outbound.cancel import cancel
from outbound.deliver import deliver
from outbound.errors import NotCancelable
from outbound.slots import process_slots
from quota.services import sweep_holds
from suppressions.services import NewSuppression, suppress_by_hand
from suppressions.statuses import SuppressionReason
from tests.support.cloudflare import account_at
from tests.support.cloudflare_server import CloudflareServer, Step, error
from tests.support.fallback import queued, thread_with_fallback
from tests.support.invariants import NO_SUCH_ROWS

pytestmark = pytest.mark.django_db
A, B = "a@example.net", "b@example.net"
DAY: Final = 86_400.0
KEYS = "an accepted message that no key stands for"
ACCEPTED: Final = {"submitted", "delivered"}
UNSENT: Final = {"queued", "rejected", "failed", "suppressed"}

SUPPRESSED: Final = error(400, "email.sending.error.recipient_suppressed", 10204)
THROTTLED: Final = error(429, "email.sending.error.throttled", 10004)
ANSWERS: Final[Mapping[str, tuple[Step, ...]]] = {
    "accepted": (),
    "throttled, then accepted": (THROTTLED, THROTTLED),
    "refused": (error(400, "email.sending.error.email.invalid"),),
    "lost": ("reset_after",),
    "one suppressed, the rest accepted": (SUPPRESSED,),
    "one suppressed, the rest lost": (SUPPRESSED, "reset_after"),
    "one suppressed, the rest throttled": (SUPPRESSED, THROTTLED),
}

Act = Callable[[Message], object]


def _domain(state: DomainState, message: Message) -> None:
    own = Domain.objects.exclude(kind="platform")
    own.filter(addresses__identity=message.identity).update(state=state)


def _cancel(message: Message) -> None:
    with suppress(NotCancelable), transaction.atomic():
        cancel(message.public_id)


def _resolve(outcome: Any, message: Message) -> None:
    with suppress(NotUncertain), transaction.atomic():
        resolve(message.public_id, outcome=outcome)


def _run_out(message: Message) -> None:
    clock.offset += timedelta(seconds=301)
    sweep_claims()


def _run_out_and_resolve(outcome: Any, message: Message) -> None:
    _run_out(message)
    _resolve(outcome, message)


def _told_delivered(message: Message) -> None:
    event = DeliveryEvent(
        source=EventSource.CLOUDFLARE,
        event_id=f"gap:{database_now().isoformat()}",
        provider_message_id="cf-late",
        sender=message.from_address or "",
        recipient=A,
        kind=DeliveryKind.DELIVERED,
        occurred_at=database_now(),
        subject=message.subject,
    )
    inbox.store([event], due_at=[database_now()])


def _clock_steps_back(message: Message) -> None:
    clock.offset -= timedelta(minutes=10)


ACTS: Final[Mapping[str, Act]] = {
    "pause": lambda message: pause_identity(message.identity_id),
    "suspension": lambda message: suspend_tenant(message.tenant_id),
    "deletion": lambda message: delete_identity(message.identity_id),
    "cancel": _cancel,
    "resolve": partial(_resolve, "not_sent"),
    "domain failing": partial(_domain, DomainState.FAILING),
    "domain verified again": partial(_domain, DomainState.VERIFYING),
    "domain removed": partial(_domain, DomainState.REMOVED),
    "suppression": lambda message: suppress_by_hand(
        NewSuppression(A, SuppressionReason.MANUAL),
        tenant_id=message.tenant_id,
        actor_key_id="key_x",
        now=database_now(),
    ),
    "key turned": lambda message: rotate_key(KeyPurpose.THREAD, revoke_previous=True),
    "second ring": lambda message: deliver(message.public_id),
    "holds swept": lambda message: sweep_holds(),
    "claim runs out": _run_out,
    "resolved as sent": partial(_run_out_and_resolve, "sent"),
    "resolved as not sent": partial(_run_out_and_resolve, "not_sent"),
    "event": _told_delivered,
    "clock back": _clock_steps_back,
}


@contextmanager
def rolled_back() -> Iterator[None]:
    """Let the next example find nothing of this one."""
    before, offset = transaction.savepoint(), clock.offset
    try:
        yield
    finally:
        transaction.savepoint_rollback(before)
        clock.offset = offset


def live_on(message: Message) -> None:
    """Do all that workers and alarms do, until nothing of the message is due."""
    ends = database_now() + timedelta(seconds=2 * DAY)
    while (row := OutboundState.objects.filter(message=message).first()) is not None:
        due = row.dispatch_at or database_now() + timedelta(seconds=301)
        assert due < ends, "it waits for ever"
        clock.offset += max(due - database_now(), timedelta(0))
        deliver(message.public_id)
        sweep_claims()
    for event in ProviderEvent.objects.all():
        apply_event(event.id)


def assert_all_is_well(message: Message, server: CloudflareServer) -> None:
    """Assert what must hold whatever has happened."""
    message.refresh_from_db()
    found = dict(message.deliveries.values_list("address", "status"))
    for address, status in found.items():
        copies = server.copies[address]
        assert copies <= 1, f"{address} has {copies} copies"
        if status in ACCEPTED and message.evidence != "person":
            assert copies == 1, f"{address} is {status} and has no copy"
        if status in UNSENT and "resolved" not in str(
            message.deliveries.get(address=address).reason
        ):
            assert copies == 0, f"{address} is {status} and has a copy"
    assert message.status != "queued"
    assert not Thread.objects.exclude(lock_owner=None).exists()
    assert process_slots().held == 0
    with connection.cursor() as cursor:
        for what, statement in NO_SUCH_ROWS.items():
            if what != KEYS:  # these were never posted
                cursor.execute(statement)
                assert cursor.fetchall() == [], what


GAPS: Final[Mapping[str, Sequence[str]]] = {
    "deliver.rung": tuple(ANSWERS),
    "deliver.claimed": tuple(ANSWERS),
    "deliver.suppressed": tuple(name for name in ANSWERS if "suppressed" in name),
    "deliver.answered": tuple(ANSWERS),
}
"""Where something can happen, and the answers that lead there."""


@pytest.fixture
def thread() -> Thread:
    """A thread that a message may leave by fallback, should its domain fail."""
    return thread_with_fallback(
        "cloudflare", platform="cloudflare", state=DomainState.HEALTHY
    )


def fault_of(
    thread: Thread, answer: str, gap: str, act: str, settings: Settings
) -> str:
    """Return what is wrong after a send in whose gap something happened, or nothing."""
    suppressed = {B: "manual"} if "suppressed" in answer else {}
    happens = [ACTS[act]]
    with CloudflareServer(*ANSWERS[answer], suppressed=suppressed) as server:
        for name, value in account_at(server).items():
            setattr(settings, name, value)
        message = queued(thread, A, B)

        def happen_once() -> None:
            if happens:
                happens.pop()(message)

        points.planted[gap] = happen_once
        try:
            deliver(message.public_id)
            live_on(message)
            assert_all_is_well(message, server)
        except AssertionError as fault:
            return f"{answer}, {act}: {fault}"
        finally:
            points.planted.clear()
    return ""


@pytest.mark.parametrize("gap", GAPS)
def test_whatever_happens_in_a_gap_nobody_gets_two_and_nothing_is_left(
    gap: str, thread: Thread, settings: Settings
) -> None:
    settings.PM_BACKOFF_SCALE = 6  # a day of waiting in few rings
    answers = cycle(GAPS[gap])
    faults = []
    for act, answer in zip(ACTS, answers, strict=False):
        with rolled_back():
            faults.append(fault_of(thread, answer, gap, act, settings))

    assert "\n".join(filter(None, faults)) == ""
