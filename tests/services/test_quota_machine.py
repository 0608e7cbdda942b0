"""Quota in any order: what is held, used and counted is what the rows say.

A machine makes up histories of one tenant and keeps its own books; after each step they
are held against the tables.
"""

import json
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Any

import pytest
from django.db import transaction
from django.db.models import Sum
from hypothesis import settings as profile
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from core import clock
from core.clock import database_now
from core.ids import new_id
from quota import billing_services as billing
from quota import services as quota
from quota.billing_services import BillingChange
from quota.caps import Caps, identity_metric
from quota.catalogue import BUILT_IN, Catalogue, parse_catalogue
from quota.errors import BillingLimit, DailyCapReached
from quota.models import Allowance, Counter, Hold, QuotaAccount
from quota.periods import Period, month_after
from quota.statuses import BillingMode
from tests.factories import IdentityFactory

CAP = 12
SIZES = {"free": 6, "developer": 14}
KEEP_FOR = timedelta(seconds=600)

units = st.integers(0, 4)
crashes = st.booleans() | st.just(False)
picks = st.integers(0, 2)


def small_catalogue() -> Catalogue:
    """Return plans small enough to be used up within a few steps."""
    shown = BUILT_IN.model_dump(mode="json")
    shown["topups"]["sends"]["units"] = 2
    for plan in shown["plans"]:
        plan["features"]["sends"] = SIZES.get(plan["plan_id"])
    return parse_catalogue(json.dumps(shown))


class Crash(Exception):
    """A process that dies before it commits."""


@dataclass
class Open:
    """A hold as the machine remembers it."""

    units: int
    expires_at: datetime
    day: date


class QuotaMachine(RuleBasedStateMachine):
    """One tenant's quota, and what it must come to."""

    def __init__(self) -> None:
        """Begin with a metered tenant on the free plan, and nothing used."""
        super().__init__()
        clock.offset = timedelta(0)
        self.identity = IdentityFactory.create()
        self.tenant_id = self.identity.tenant_id
        self.mode, self.plan, self.topups = BillingMode.METERED, "free", 0
        now = database_now()
        self.period = Period(now, month_after(now))
        QuotaAccount.objects.filter(tenant_id=self.tenant_id).update(
            period_start=self.period.start, period_end=self.period.end
        )
        billing.change_billing(
            self.tenant_id, BillingChange(BillingMode.METERED), actor_key_id=None
        )
        self.open: dict[str, Open] = {}
        self.counts: dict[date, int] = {}
        self.charged: list[tuple[Period, int]] = []

    def teardown(self) -> None:
        """Leave no hold behind: the sweep asks for no tenant."""
        Hold.objects.filter(tenant_id=self.tenant_id).delete()
        super().teardown()

    @property
    def granted(self) -> int | None:
        """Return what the plan grants; None is unlimited."""
        if self.mode != BillingMode.METERED:
            return None
        more = 2 * self.topups if self.plan == "developer" else 0
        return SIZES[self.plan] + more

    @property
    def used(self) -> int:
        """Return what was charged to the period."""
        return sum(n for period, n in self.charged if period == self.period)

    def ref(self, pick: int) -> str:
        """Return one of the open refs, or a new one."""
        refs = sorted(self.open)
        return refs[pick] if pick < len(refs) else new_id("msg")

    def do(self, act: Any, *, crash: bool) -> bool:
        """Run one transaction, and tell whether it was committed."""
        try:
            with transaction.atomic():
                act()
                if crash:
                    raise Crash
        except Crash:
            return False
        self.period = self.period.at(database_now())
        return True

    @rule(units=units, again=picks, crash=crashes)
    def send(self, units: int, again: int, crash: bool) -> None:
        """Accept a send, or refuse it for its plan, or else for its cap."""
        now, ref = database_now(), self.ref(again)
        caps = Caps(self.identity.id, CAP, CAP * 2)
        new = 0 if ref in self.open else units
        period = self.period.at(now)
        used = sum(n for p, n in self.charged if p == period)
        held = sum(hold.units for hold in self.open.values())
        is_spent = self.granted is not None and used + held + new > self.granted
        is_capped = self.counts.get(now.date(), 0) >= CAP

        def act() -> None:
            quota.reserve(self.tenant_id, ref=ref, units=units, now=now, caps=caps)

        try:
            committed = self.do(act, crash=crash)
        except BillingLimit as refused:
            assert new
            assert is_spent
            billing.tell_of_limit(refused)
            if refused.is_first:
                self.period = period
        except DailyCapReached:
            assert is_capped
            assert not (new and is_spent)
        else:
            assert not is_capped
            assert not (new and is_spent)
            if committed:
                self.counts[now.date()] = self.counts.get(now.date(), 0) + 1
                if new:
                    self.open[ref] = Open(new, now + KEEP_FOR, now.date())

    @rule(pick=picks, consume=units, keep=units, crash=crashes)
    def settle(self, pick: int, consume: int, keep: int, crash: bool) -> None:
        """Charge some of a send, keep some for a retry, give back the rest."""
        ref = self.ref(pick)
        hold = self.open.get(ref)
        consume = min(consume, hold.units) if hold else consume
        keep = min(keep, hold.units - consume) if hold else keep
        until = database_now() + timedelta(hours=1)

        def act() -> None:
            quota.settle(
                self.tenant_id, ref=ref, consume=consume, keep=keep, until=until
            )

        if not self.do(act, crash=crash):
            return
        self.charged.append((self.period, consume))
        if hold and keep:
            self.open[ref] = Open(keep, until + KEEP_FOR, hold.day)
        elif hold:
            del self.open[ref]

    @precondition(lambda self: self.open)
    @rule(pick=picks, crash=crashes)
    def extend(self, pick: int, crash: bool) -> None:
        """Keep all that is held for longer."""
        ref = sorted(self.open)[pick % len(self.open)]
        hold, until = self.open[ref], database_now() + timedelta(hours=2)

        def act() -> None:
            quota.settle(
                self.tenant_id, ref=ref, consume=0, keep=hold.units, until=until
            )

        if self.do(act, crash=crash):
            self.open[ref] = Open(hold.units, until + KEEP_FOR, hold.day)

    @rule(pick=picks, crash=crashes)
    def cancel(self, pick: int, crash: bool) -> None:
        """Give back a send as if it had never been."""
        ref = self.ref(pick)

        def act() -> None:
            quota.unreserve(self.tenant_id, ref=ref)

        if self.do(act, crash=crash):
            self._forget(ref)

    def _forget(self, ref: str) -> None:
        hold = self.open.pop(ref, None)
        if hold is not None:
            self.counts[hold.day] -= 1

    @rule(minutes=st.sampled_from([1, 11, 90]))
    def expire(self, minutes: int) -> None:
        """Let time pass, and give back what nobody has settled."""
        clock.offset += timedelta(minutes=minutes)
        now = database_now()
        due = [ref for ref, hold in self.open.items() if hold.expires_at <= now]

        assert quota.sweep_holds() == len(due)

        if due:
            self.period = self.period.at(now)
        for ref in due:
            self._forget(ref)

    @rule(by_beat=st.booleans())
    def end_period(self, by_beat: bool) -> None:
        """Let the period end; the beat may be late."""
        clock.offset += self.period.end - database_now()
        if by_beat:
            billing.roll_periods()
            self.period = self.period.at(database_now())

    @rule(
        mode=st.sampled_from([BillingMode.METERED, *BillingMode]),
        plan=st.sampled_from(sorted(SIZES)),
        topups=st.integers(0, 3),
        crash=crashes,
    )
    def change_plan(
        self, mode: BillingMode, plan: str, topups: int, crash: bool
    ) -> None:
        """Give the tenant another mode, plan and top-ups."""
        more = {"sends": topups} if plan == "developer" else {}

        def act() -> None:
            change = BillingChange(mode, plan, more)
            billing.change_billing(self.tenant_id, change, actor_key_id=None)

        if self.do(act, crash=crash):
            self.mode, self.plan = mode, plan
            self.topups = more.get("sends", self.topups)

    @invariant()
    def the_books_agree(self) -> None:
        """Hold the tables against what the machine remembers."""
        allowance = Allowance.objects.get(tenant_id=self.tenant_id, feature="sends")
        held = dict(
            Hold.objects.filter(tenant_id=self.tenant_id).values_list("ref", "units")
        )
        counters = Counter.objects.filter(tenant_id=self.tenant_id)
        counted = dict(
            counters.filter(metric=identity_metric(self.identity.id)).values_list(
                "bucket", "value"
            )
        )
        usage = counters.filter(metric="usage:sends").aggregate(all=Sum("value"))

        assert held == {ref: hold.units for ref, hold in self.open.items()}
        assert allowance.held == sum(held.values())
        assert (allowance.granted, allowance.used) == (self.granted, self.used)
        assert counted == {day.isoformat(): n for day, n in self.counts.items()}
        assert (usage["all"] or 0) == sum(n for _, n in self.charged)
        of_all = counters.filter(metric="sends").values_list("bucket", "value")
        assert dict(of_all) == counted


@pytest.mark.django_db
def test_in_any_order_the_books_agree(settings: Any) -> None:
    settings.PM_BILLING = "stripe"
    settings.PM_PLAN_CATALOG = small_catalogue().model_dump_json()

    run_state_machine_as_test(
        QuotaMachine,
        settings=profile(max_examples=20, stateful_step_count=20),
    )
