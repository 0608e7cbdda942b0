"""Quota in any order: what is held, used and counted is what the rows say.

A machine makes up histories of one tenant, in which processes die after any statement,
and keeps its own books; after each step they are held against the tables.
"""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any, Final

import pytest
from django.db import transaction
from hypothesis import settings as profile
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from core import clock
from core.clock import database_now
from core.ids import new_id
from mailboxes.models import Message
from mailboxes.statuses import MessageStatus
from quota import billing_services as billing
from quota import services as quota
from quota.billing_services import BillingChange
from quota.caps import Caps, Reservation
from quota.counting import HOLD_FOR
from quota.errors import BillingLimit, DailyCapReached
from quota.models import Hold, QuotaAccount
from quota.periods import Period, month_after
from quota.statuses import BillingMode
from tests.factories import IdentityFactory, MessageFactory, ThreadFactory
from tests.support.crashes import Crash, dying
from tests.support.quota_books import (
    ZONE,
    Books,
    Open,
    is_first,
    make_guard,
    small_catalogue,
    stored,
)

CAP, TENANT_CAP = 5, 8
SUITE: Final = (40, 30)
"""How many histories of how many steps; the profile ``release`` has its own."""

amounts = st.sampled_from([2, 1, 0, 3, 5])
picks = st.integers(0, 3)
whom = st.sampled_from([0, 2, 1])
deaths = st.none() | st.none() | st.integers(1, 8)


class QuotaMachine(RuleBasedStateMachine):
    """One tenant's quota, and what it must come to."""

    def __init__(self) -> None:
        """Begin with a metered tenant on the free plan, and nothing used."""
        super().__init__()
        clock.offset = timedelta(0)
        self.savepoint = transaction.savepoint()
        self.thread = ThreadFactory.create(identity__tenant__timezone=ZONE)
        first = self.thread.identity
        self.tenant_id = first.tenant_id
        other, system = IdentityFactory.create_batch(2, tenant=first.tenant)
        self.callers = [
            Caps(first.id, CAP, TENANT_CAP),
            Caps(other.id, CAP, TENANT_CAP),
            Caps(system.id, CAP, None),
        ]
        now = database_now()
        self.books = Books(Period(now, month_after(now)))
        QuotaAccount.objects.filter(tenant_id=self.tenant_id).update(
            period_start=now, period_end=month_after(now)
        )
        metered = BillingChange(BillingMode.METERED)
        billing.change_billing(self.tenant_id, metered, actor_key_id=None)
        self.queued: dict[str, Open] = {}
        self.stored: set[str] = set()

    def teardown(self) -> None:
        """Leave nothing behind: the sweeps ask for no tenant."""
        transaction.savepoint_rollback(self.savepoint)
        super().teardown()

    def do(self, act: Callable[[], object], *, dies: int | None) -> Any:
        """Run one transaction of a caller; one that dies is made again.

        Whoever does not know whether it was committed asks the row that it moved.
        """
        call, got = new_id("req"), None

        def once() -> None:
            nonlocal got
            with transaction.atomic():
                if is_first(call):
                    got = act()

        self.until_done(once, dies=dies)
        self.books.catch_up(database_now())
        return got

    def until_done(self, act: Callable[[], object], *, dies: int | None) -> object:
        """Do it, and do it again if the process dies."""
        try:
            with dying(dies):
                return act()
        except Crash:
            return act()

    def open_ref(self, pick: int) -> str:
        """Return one of the refs for which something is held."""
        refs = sorted(self.books.open)
        return refs[pick % len(refs)]

    @property
    def parted(self) -> list[str]:
        """Return the refs whose hold can be settled in part."""
        return sorted(r for r, hold in self.books.open.items() if hold.units > 1)

    def move(self, ref: str, status: MessageStatus) -> None:
        """Write what became of a message, in the caller's transaction."""
        if ref in self.queued:
            Message.objects.filter(public_id=ref).update(status=status)

    @initialize(
        who=whom,
        sends=st.lists(st.tuples(amounts, st.booleans()), min_size=2, max_size=5),
    )
    def begin(self, who: int, sends: list[tuple[int, bool]]) -> None:
        """Begin with a few sends of somebody, near the plan and the cap."""
        for amount, is_accepted in sends:
            self.send(who=who, amount=amount, is_accepted=is_accepted, dies=None)

    @rule(amount=amounts, who=whom, is_accepted=st.booleans(), dies=deaths)
    def send(self, amount: int, who: int, is_accepted: bool, dies: int | None) -> None:
        """Accept a send, or refuse it for its plan, or else for its cap."""
        self._send(new_id("msg"), amount, self.callers[who], is_accepted, dies)

    @precondition(lambda self: self.books.open)
    @rule(pick=picks, amount=amounts, dies=deaths)
    def send_again(self, pick: int, amount: int, dies: int | None) -> None:
        """Ask again for what is held already."""
        ref = self.open_ref(pick)
        self._send(ref, amount, self.books.open[ref].caps, False, dies)

    def _send(
        self, ref: str, amount: int, caps: Caps, is_accepted: bool, dies: int | None
    ) -> None:
        now, books = database_now(), self.books.at(database_now())
        new = 0 if ref in books.open else amount
        day = books.days.day(now)

        def act() -> Reservation:
            if is_accepted:
                MessageFactory.create(public_id=ref, thread=self.thread)
            return quota.reserve(
                self.tenant_id, ref=ref, units=amount, now=now, caps=caps
            )

        try:
            taken = self.do(act, dies=dies)
        except BillingLimit as spent:
            assert not books.has_room(new)
            self._tell(spent, books.period, dies=dies)
        except DailyCapReached as full:
            cap = full.details["cap"]
            assert (books.has_room(new), cap) == (True, books.reached(caps, day))
        else:
            assert books.has_room(new)
            assert not books.reached(caps, day)
            warned = self.books.count(caps, day)
            if taken is not None:  # the answer came
                assert [(w.scope, w.percent) for w in taken.warnings] == warned
            opened = Open(new, now + HOLD_FOR, caps, day)
            if new:
                self.books.open[ref] = opened
            if is_accepted:
                self.queued[ref] = opened
                self.stored.add(ref)

    def _tell(self, refused: BillingLimit, period: Period, *, dies: int | None) -> None:
        told = self.books.told
        assert refused.is_first == (not told or told[-1] < period.start)
        self.until_done(lambda: billing.tell_of_limit(refused), dies=dies)
        if refused.is_first:
            self.books.catch_up(database_now())
            told.append(period.start)

    @precondition(lambda self: self.books.open)
    @rule(pick=picks, part=picks, dies=deaths)
    def settle(self, pick: int, part: int, dies: int | None) -> None:
        """Charge a send that has left, all of it or less, and give back the rest."""
        ref = self.open_ref(pick)
        consume = max(0, self.books.open[ref].units - part)
        self._settle(ref, consume, keep=0, dies=dies)

    @precondition(lambda self: self.parted)
    @rule(pick=picks, keep=picks, part=picks, dies=deaths)
    def settle_in_part(self, pick: int, keep: int, part: int, dies: int | None) -> None:
        """Charge some of a send, keep some for a retry, give back the rest."""
        ref = self.parted[pick % len(self.parted)]
        units = self.books.open[ref].units
        kept = 1 + keep % (units - 1)
        self._settle(ref, part % (units - kept + 1), keep=kept, dies=dies)

    @rule(consume=amounts, dies=deaths)
    def settle_late(self, consume: int, dies: int | None) -> None:
        """Charge what nothing is held for: its hold expired, or it was uncertain."""
        self._settle(new_id("msg"), consume, keep=0, dies=dies)

    def _settle(self, ref: str, consume: int, *, keep: int, dies: int | None) -> None:
        until = database_now() + timedelta(hours=1)

        def act() -> None:
            quota.settle(
                self.tenant_id, ref=ref, consume=consume, keep=keep, until=until
            )
            if not keep:
                self.move(ref, MessageStatus.SUBMITTED)

        self.do(act, dies=dies)
        self.books.charge(consume, database_now())
        if keep:
            hold = self.books.open[ref]
            self.books.open[ref] = replace(
                hold, units=keep, expires_at=until + HOLD_FOR
            )
        else:
            self._close(ref)

    def _close(self, ref: str) -> None:
        self.queued.pop(ref, None)
        self.books.open.pop(ref, None)

    @precondition(lambda self: self.books.open)
    @rule(pick=picks, dies=deaths)
    def extend(self, pick: int, dies: int | None) -> None:
        """Keep all that is held for longer."""
        ref = self.open_ref(pick)
        hold, until = self.books.open[ref], database_now() + timedelta(hours=2)

        def act() -> None:
            quota.settle(
                self.tenant_id, ref=ref, consume=0, keep=hold.units, until=until
            )

        self.do(act, dies=dies)
        hold.expires_at = until + HOLD_FOR

    @precondition(lambda self: self.books.open)
    @rule(pick=picks, dies=deaths)
    def release(self, pick: int, dies: int | None) -> None:
        """Give a hold back, of a send that was counted: it failed, or is uncertain."""
        ref = self.open_ref(pick)

        def act() -> None:
            quota.release(self.tenant_id, ref=ref)
            self.move(ref, MessageStatus.UNCERTAIN)

        self.do(act, dies=dies)
        self._close(ref)

    @precondition(lambda self: self.books.open)
    @rule(pick=picks, dies=deaths)
    def undo(self, pick: int, dies: int | None) -> None:
        """Give back a send as if it had never been."""
        ref = self.open_ref(pick)

        def act() -> None:
            quota.unreserve(self.tenant_id, ref=ref)
            self.move(ref, MessageStatus.FAILED)

        self.do(act, dies=dies)
        hold = self.books.open[ref]
        self._close(ref)
        self.books.uncount(hold.caps, hold.day)

    @precondition(lambda self: self.queued)
    @rule(pick=picks, dies=deaths)
    def cancel(self, pick: int, dies: int | None) -> None:
        """Cancel a message: its hold is given back, and its place on its day."""
        ref = sorted(self.queued)[pick % len(self.queued)]
        sent = self.queued[ref]

        def act() -> None:
            quota.release(self.tenant_id, ref=ref)
            quota.release_day(
                self.tenant_id,
                identity_id=sent.caps.identity_id,
                day=sent.day,
                is_system=sent.caps.tenant is None,
            )
            self.move(ref, MessageStatus.CANCELED)

        self.do(act, dies=dies)
        self._close(ref)
        self.books.uncount(sent.caps, sent.day)

    @rule(
        minutes=st.sampled_from([90, 11, 1, 8 * 24 * 60]),
        ended=st.none() | picks,
        dies=st.none() | st.integers(4, 15),
    )
    def expire(self, minutes: int, ended: int | None, dies: int | None) -> None:
        """Let time pass, and give back what nobody has settled.

        Of what is still queued the hold is prolonged; of what never came about the
        place on its day is given back too. One message may have ended without a word.
        """
        if self.queued and ended is not None:
            ref = sorted(self.queued)[ended % len(self.queued)]
            self.move(ref, MessageStatus.FAILED)
            del self.queued[ref]
        clock.offset += timedelta(minutes=minutes)
        now = database_now()
        due = [ref for ref, hold in self.books.open.items() if hold.expires_at <= now]
        over = [ref for ref in due if ref not in self.queued]

        swept = self.until_done(quota.sweep_holds, dies=dies)

        assert dies or swept == len(over)
        if due:
            self.books.catch_up(now)
        for ref in over:
            hold = self.books.open.pop(ref)
            if ref not in self.stored:
                self.books.uncount(hold.caps, hold.day)
        for ref in set(due).difference(over):
            until = Hold.objects.get(ref=ref).expires_at
            assert until >= now + HOLD_FOR
            self.books.open[ref].expires_at = until

    @rule(by_beat=st.booleans(), dies=deaths)
    def end_period(self, by_beat: bool, dies: int | None) -> None:
        """Let the period end; the beat may be late."""
        clock.offset += self.books.period.end - database_now()
        if by_beat:
            self.until_done(billing.roll_periods, dies=dies)
            self.books.catch_up(database_now())

    @rule(
        mode=st.sampled_from([BillingMode.METERED, BillingMode.METERED, *BillingMode]),
        plan=st.sampled_from(["free", "developer"]),
        topups=st.integers(0, 3),
        is_due=st.none() | st.booleans(),
        dies=deaths,
    )
    def change_plan(
        self,
        mode: BillingMode,
        plan: str,
        topups: int,
        is_due: bool | None,
        dies: int | None,
    ) -> None:
        """Give the tenant another mode, plan and top-ups; it may owe, or have paid."""
        now = database_now()
        more = {"sends": topups} if plan == "developer" else {}
        change = BillingChange(
            mode,
            plan,
            more,
            past_due_since=now if is_due else None,
            is_paid=is_due is False,
        )

        self.do(self._change(change), dies=dies)

        self.books.mode, self.books.plan = mode, plan
        self.books.topups = more.get("sends", self.books.topups)
        if is_due is not None:
            self.books.past_due_since = now if is_due else None

    @rule(hours=st.integers(-30, 0), is_told=st.booleans(), dies=deaths)
    def pay(self, hours: int, is_told: bool, dies: int | None) -> None:
        """Tell of a paid period: a new one, the same one, or an old one."""
        now = database_now()
        running = self.books.at(now).period
        start = running.start if is_told else now + timedelta(hours=hours)

        self.do(self._change(BillingChange(period_start=start)), dies=dies)

        if start > running.start:
            is_paid = self.books.plan != "free"
            self.books.begin(Period.begun(start, is_paid=is_paid))

    def _change(self, change: BillingChange) -> Callable[[], None]:
        return lambda: billing.change_billing(self.tenant_id, change, actor_key_id=None)

    @rule(zone=st.sampled_from([ZONE, "UTC", "America/New_York"]), dies=deaths)
    def move_house(self, zone: str, dies: int | None) -> None:
        """Give the tenant another time zone, from its next midnight on."""
        now = database_now()
        self.do(lambda: quota.change_timezone(self.tenant_id, zone), dies=dies)
        self.books.days = self.books.days.changed_to(zone, now=now)

    @invariant()
    def the_books_agree(self) -> None:
        """Hold the tables against what the machine remembers."""
        assert stored(self.tenant_id) == self.books.rows()


@pytest.mark.django_db
def test_in_any_order_the_books_agree(settings: Any) -> None:
    settings.PM_BILLING = "stripe"
    settings.PM_PLAN_CATALOG = small_catalogue().model_dump_json()
    make_guard()
    is_longer = profile.get_current_profile_name() == "release"
    examples, steps = SUITE

    run_state_machine_as_test(
        QuotaMachine,
        settings=profile()
        if is_longer
        else profile(max_examples=examples, stateful_step_count=steps),
    )
