"""A process that dies after each statement of what it does to a quota.

It has done all of it or nothing, and whoever repeats it has done it once.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.db import transaction

from core import clock
from core.clock import database_now
from core.ids import new_id
from mailboxes.models import Identity, Message
from mailboxes.statuses import MessageStatus
from quota import billing_services as billing
from quota import services as quota
from quota.billing_services import BillingChange
from quota.caps import Caps
from quota.errors import BillingLimit
from quota.models import Hold, QuotaAccount
from quota.statuses import BillingMode
from tests.factories import IdentityFactory, MessageFactory, ThreadFactory
from tests.support.crashes import Crash, dying
from tests.support.quota_books import is_first, make_guard, small_catalogue, stored

pytestmark = pytest.mark.django_db

HELD, NEW = new_id("msg"), new_id("msg")


class Scene:
    """A metered tenant that holds four of its eight units for one send."""

    def __init__(self) -> None:
        self.identity: Identity = IdentityFactory.create()
        self.tenant_id = self.identity.tenant_id
        self.now = database_now()
        self.caps = Caps(self.identity.id, 5, 5)
        metered = BillingChange(BillingMode.METERED)
        billing.change_billing(self.tenant_id, metered, actor_key_id=None)
        self.reserve(HELD, 4)

    def reserve(self, ref: str, units: int) -> None:
        """Hold units for a send, and count it."""
        quota.reserve(
            self.tenant_id, ref=ref, units=units, now=self.now, caps=self.caps
        )

    def settle(self, ref: str, consume: int, keep: int = 0) -> None:
        """Charge a send."""
        until = self.now + timedelta(hours=1)
        quota.settle(self.tenant_id, ref=ref, consume=consume, keep=keep, until=until)

    def cancel(self) -> None:
        """Give back a message that was counted."""
        quota.release(self.tenant_id, ref=HELD)
        quota.release_day(
            self.tenant_id, identity_id=self.identity.id, day=self.now.date()
        )

    def change(self, **wanted: Any) -> None:
        """Change what the tenant is on."""
        billing.change_billing(
            self.tenant_id, BillingChange(**wanted), actor_key_id=None
        )

    def rows(self) -> dict[str, Any]:
        """Return what is stored; the sweep prolongs holds, nobody knows until when."""
        found, now = stored(self.tenant_id), database_now()
        late = self.now + timedelta(minutes=30)
        return found | {
            "holds": {
                ref: (units, now < until, late < until, *rest)
                for ref, (units, until, *rest) in found["holds"].items()
            }
        }


def call(name: str, *arguments: Any, **options: Any) -> Callable[[Scene], object]:
    """Return a step of a scene, as part of its caller's transaction."""

    def act(scene: Scene, call_id: str = new_id("req")) -> None:
        with transaction.atomic():
            if is_first(call_id):
                getattr(scene, name)(*arguments, **options)

    return act


CALLS: dict[str, Callable[[Scene], object]] = {
    "reserve": call("reserve", NEW, 4),
    "reserve past 80 percent": call("reserve", NEW, 1),
    "settle all": call("settle", HELD, 4),
    "settle less": call("settle", HELD, 1),
    "settle in part": call("settle", HELD, 2, keep=1),
    "settle without a hold": call("settle", NEW, 2),
    "extend": call("settle", HELD, 0, keep=4),
    "release": call("settle", HELD, 0),
    "cancel": call("cancel"),
    "change the plan": call("change", plan_id="developer", topups={"sends": 3}),
    "owe": call("change", past_due_since=datetime.fromisoformat("2026-05-04T00:00Z")),
}


@pytest.fixture
def scene(settings: Any) -> Scene:
    """Where each of these happens."""
    settings.PM_BILLING = "stripe"
    settings.PM_PLAN_CATALOG = small_catalogue().model_dump_json()
    make_guard()
    return Scene()


@contextmanager
def undone() -> Iterator[None]:
    """Take back all that the block has written."""
    savepoint = transaction.savepoint()
    yield
    transaction.savepoint_rollback(savepoint)


def assert_all_or_nothing(scene: Scene, act: Callable[[Scene], object]) -> None:
    """Hold that a crash after any statement leaves all or nothing, and a repeat all."""
    before = scene.rows()
    with undone(), dying(None) as statements:
        act(scene)
        after = scene.rows()
    assert after != before
    left = []
    for n in range(1, statements.count):  # the last one has read the rows
        with undone():
            try:
                with dying(n):
                    act(scene)
            except Crash:
                left.append(scene.rows())
                act(scene)
            assert scene.rows() == after, n
    assert len(left) >= 4
    assert [rows for rows in left if rows not in (before, after)] == []
    assert left[0] == before
    assert left[-1] == after  # it was committed, and nobody heard


@pytest.mark.parametrize("name", CALLS)
def test_a_call_that_dies_has_done_nothing_or_all_and_once(
    scene: Scene, name: str
) -> None:
    if name == "reserve past 80 percent":
        for _ in range(2):
            scene.reserve(new_id("msg"), 1)

    assert_all_or_nothing(scene, CALLS[name])


@pytest.mark.parametrize("name", ["reserve", "settle all", "settle without a hold"])
def test_so_has_one_that_ends_a_period_first(scene: Scene, name: str) -> None:
    scene.settle(NEW, 3)
    scene.change(past_due_since=scene.now)
    clock.offset += timedelta(days=50)
    QuotaAccount.objects.update(period_end=database_now())

    assert_all_or_nothing(scene, CALLS[name])


@pytest.mark.parametrize("status", [None, *MessageStatus.values[:2]])
def test_a_sweep_that_dies_closes_a_hold_once(
    scene: Scene, status: MessageStatus | None
) -> None:
    # Given a hold that ran out, of a send that never was, still waits, or has ended
    if status:
        thread = ThreadFactory.create(identity=scene.identity)
        MessageFactory.create(public_id=HELD, thread=thread, status=status)
    clock.offset += timedelta(seconds=601)

    assert_all_or_nothing(scene, lambda _: quota.sweep_holds())

    quota.sweep_holds()
    is_queued = status == MessageStatus.QUEUED
    assert Hold.objects.filter(ref=HELD).exists() == is_queued
    assert Message.objects.count() == (1 if status else 0)


def test_a_beat_that_dies_begins_a_period_once(scene: Scene) -> None:
    scene.settle(NEW, 3)
    QuotaAccount.objects.update(period_end=database_now())

    assert_all_or_nothing(scene, lambda _: billing.roll_periods())


def test_a_refusal_that_dies_is_told_of_once_in_its_period(scene: Scene) -> None:
    with pytest.raises(BillingLimit) as caught, transaction.atomic():
        scene.reserve(NEW, 5)

    assert_all_or_nothing(scene, lambda _: billing.tell_of_limit(caught.value))
