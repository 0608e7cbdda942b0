"""What a tenant used, by days: counted once, written down hourly, kept for a while."""

from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest
from pytest_django import Settings

from core import clock
from core.clock import database_now
from delivery.services import resolve
from inbound import receive
from mailboxes.models import Alert, Identity, Message, Tenant
from mailboxes.services import resolve_alerts
from mailboxes.statuses import TenantMode
from outbound.transports.base import (
    Accepted,
    RetryClass,
    RetryLater,
    UncertainReason,
    Unknown,
)
from pylota.celery import app
from quota import services, tasks, usage_services
from quota.models import Allowance, Counter, QuotaAccount, UsageDay
from quota.send_quota import ALERT, check_send_quota
from quota.statuses import Feature
from tests.factories import QueuedMessageFactory, TenantFactory
from tests.services.conftest import used_by
from tests.support.answering import with_file
from tests.support.loops import copy_of, letter, new_box
from tests.support.scripted import ScriptedTransport, work

pytestmark = pytest.mark.django_db

A, B = "a@example.net", "b@example.net"
NOON = datetime(2026, 11, 10, 12, tzinfo=UTC)


def counted(tenant: Tenant) -> dict[str, int]:
    """Return what was counted of a tenant, over all days."""
    found = Counter.objects.filter(tenant=tenant, metric__startswith="usage:")
    names = dict(found.values_list("metric", "value"))
    return {name.removeprefix("usage:"): value for name, value in names.items()}


def days(tenant: Tenant, metric: str) -> dict[date, int]:
    found = UsageDay.objects.filter(tenant=tenant, metric=metric)
    return dict(found.values_list("day", "value"))


def at(instant: datetime) -> None:
    """Let it be this instant."""
    clock.offset += instant - database_now()


def try_again(message: Message, transport: ScriptedTransport) -> None:
    clock.offset += timedelta(hours=2)
    work(message.public_id, transport)


def spend(tenant: Tenant, units: int) -> None:
    services.settle(tenant.id, ref="msg_x", consume=units, is_first=True)


# --- what is counted -----------------------------------------------------------------


def test_a_message_counts_once_and_each_recipient_that_was_accepted(
    identity: Identity, scripted: ScriptedTransport
) -> None:
    # Given a relay that takes one recipient now and the other one later
    message = QueuedMessageFactory.create(thread__identity=identity, recipients=(A, B))
    later = RetryLater(RetryClass.RELAY, "451 later")
    scripted.answers = [Accepted("smtp:x:1", deferred=(B,)), later]

    work(message.public_id, scripted)
    assert counted(message.tenant) == {"outbound": 1, "sends": 1}
    for _ in range(2):
        try_again(message, scripted)

    assert len(scripted.calls) == 3
    assert (used_by(message, "outbound"), used_by(message, "sends")) == (1, 2)


@pytest.mark.parametrize("outcome", ["sent", "not_sent"])
def test_a_send_in_doubt_counts_when_somebody_says_that_it_was_sent(
    identity: Identity, scripted: ScriptedTransport, outcome: Any
) -> None:
    message = QueuedMessageFactory.create(thread__identity=identity, recipients=(A, B))
    scripted.answers = [Unknown(UncertainReason.TIMEOUT, "silence")]
    work(message.public_id, scripted)
    assert counted(message.tenant) == {}

    resolve(message.public_id, outcome=outcome)

    expected = {"outbound": 1, "sends": 2} if outcome == "sent" else {}
    assert counted(message.tenant) == expected


def test_what_comes_in_counts_once() -> None:
    box = new_box()
    raw = letter(box, "Message-ID: <a@example.net>")

    for state in ("received", "duplicate"):
        assert receive.receive(copy_of(raw, box).id) == state

    assert counted(box.identity.tenant) == {"inbound": 1}


def test_a_day_is_one_in_utc(identity: Identity) -> None:
    tenant = identity.tenant
    Tenant.objects.filter(id=tenant.id).update(timezone="Pacific/Auckland")

    at(datetime(2026, 11, 10, 23, 59, 50, tzinfo=UTC))
    spend(tenant, 2)
    at(datetime(2026, 11, 11, 0, 0, 5, tzinfo=UTC))
    spend(tenant, 3)

    found = Counter.objects.filter(tenant=tenant, metric="usage:sends")
    assert dict(found.values_list("bucket", "value")) == {
        "2026-11-10": 2,
        "2026-11-11": 3,
    }


# --- what is written down ------------------------------------------------------------


@pytest.fixture
def tenant(transactional_db: None) -> Tenant:
    """A tenant that has all its allowances, at noon."""
    made = TenantFactory.create()
    for feature in set(Feature) - {Feature.SENDS}:
        Allowance.objects.create(tenant=made, feature=feature)
    at(NOON)
    return made


def test_usage_is_written_down_each_hour_and_overwrites(tenant: Tenant) -> None:
    spend(tenant, 2)
    assert usage_services.roll_up() == 1
    spend(tenant, 3)

    clock.offset += timedelta(minutes=59)
    assert usage_services.roll_up() == 0
    assert days(tenant, "sends") == {NOON.date(): 2}

    clock.offset += timedelta(minutes=1)
    assert usage_services.roll_up() == 1
    assert days(tenant, "sends") == {NOON.date(): 5}
    assert days(tenant, "outbound") == {NOON.date(): 2}


def test_a_day_that_ends_between_two_rounds_is_written_down_whole(
    tenant: Tenant,
) -> None:
    at(datetime(2026, 11, 10, 23, 50, tzinfo=UTC))
    usage_services.roll_up()
    spend(tenant, 4)
    at(datetime(2026, 11, 11, 0, 55, tzinfo=UTC))
    spend(tenant, 1)

    usage_services.roll_up()

    assert days(tenant, "sends") == {date(2026, 11, 10): 4, date(2026, 11, 11): 1}


def test_counters_go_after_two_days_and_days_after_92(tenant: Tenant) -> None:
    spend(tenant, 7)
    caps = Counter.objects.create(
        tenant=tenant, metric="sends", bucket="2026-01-01", value=1
    )

    # When beat was away for a week, then nothing is lost
    clock.offset += timedelta(days=7)
    usage_services.roll_up()
    assert days(tenant, "sends") == {NOON.date(): 7}
    sends = Counter.objects.filter(tenant=tenant, metric="usage:sends")
    assert not sends.exists()

    clock.offset += timedelta(days=85)
    usage_services.roll_up()
    assert days(tenant, "sends") == {NOON.date(): 7}
    clock.offset += timedelta(days=1)
    usage_services.roll_up()
    assert days(tenant, "sends") == {}
    assert Counter.objects.filter(pk=caps.pk).exists()  # a daily cap's is not usage


def test_a_counter_stands_for_two_days(tenant: Tenant) -> None:
    spend(tenant, 7)

    clock.offset += timedelta(days=2)
    usage_services.roll_up()

    assert counted(tenant)["sends"] == 7


@pytest.mark.parametrize(
    ("octets", "gigabytes"),
    [(0, 0), (1, 1), (2**30, 1), (2**30 + 1, 2), (5 * 2**30, 5)],
)
def test_what_is_stored_is_measured_in_whole_gigabytes(
    tenant: Tenant, octets: int, gigabytes: int
) -> None:
    # Given mail whose raw form is kept, or no longer, and mail of another tenant
    own = QueuedMessageFactory.create(thread__identity__tenant=tenant)
    Message.objects.filter(key=own.key).update(raw_size=octets // 2)
    gone = QueuedMessageFactory.create(thread__identity=own.identity)
    Message.objects.filter(key=gone.key).update(raw_key=None, raw_size=99)
    with_file(own, size=octets - octets // 2)
    foreign = QueuedMessageFactory.create()
    Message.objects.filter(key=foreign.key).update(raw_size=2**40)

    usage_services.roll_up()

    used = Allowance.objects.get(tenant=tenant, feature=Feature.STORAGE_GB).used
    assert used == gigabytes
    assert days(tenant, "storage_bytes") == {NOON.date(): octets}


def test_a_store_that_cannot_be_measured_stops_nothing_else(
    tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(tenant_id: str) -> bool:
        raise RuntimeError("too slow")

    spend(tenant, 2)
    monkeypatch.setattr(usage_services, "_measure", fail)

    assert usage_services.roll_up() == 1

    assert days(tenant, "sends") == {NOON.date(): 2}
    assert days(tenant, "storage_bytes") == {}


def test_a_tenant_that_cannot_be_written_down_stops_no_other(tenant: Tenant) -> None:
    other = TenantFactory.create()
    spend(other, 1)
    # a bucket that is no day: the row passes every check of its form
    Counter.objects.create(
        tenant=tenant, metric="usage:sends", bucket="2026-99-99", value=1
    )

    assert usage_services.roll_up() == 1

    assert days(other, "sends") == {NOON.date(): 1}
    assert QuotaAccount.objects.get(tenant=tenant).usage_rolled_at is None


def test_beat_rolls_up_each_quarter_hour_and_looks_at_the_quota_each_minute() -> None:
    periods = {
        entry["task"]: entry["schedule"] for entry in app.conf.beat_schedule.values()
    }

    assert periods["quota.roll_up_usage"] == timedelta(minutes=15)
    assert periods["quota.check_send_quota"] == timedelta(minutes=1)
    assert {tasks.roll_up_usage.name, tasks.check_send_quota.name} <= set(periods)


# --- the provider's daily quota ------------------------------------------------------


def alerts() -> list[tuple[str, bool]]:
    found = Alert.objects.filter(name=ALERT).order_by("first_at")
    return [(alert.subject, alert.resolved_at is None) for alert in found]


def test_at_80_percent_of_the_providers_quota_one_alert_is_raised_a_day(
    tenant: Tenant, settings: Settings
) -> None:
    settings.PM_DAILY_SEND_QUOTA = 1000
    test = TenantFactory.create(mode=TenantMode.TEST)
    spend(tenant, 700)
    spend(TenantFactory.create(), 99)
    spend(test, 500)  # leaves for nowhere
    check_send_quota()
    assert alerts() == []

    # When one more leaves, then it is told once, also if a person has closed it
    spend(tenant, 1)
    for _ in range(2):
        check_send_quota()
    assert alerts() == [("2026-11-10", True)]
    assert Alert.objects.get(name=ALERT).details == {"sent": 800, "quota": 1000}
    resolve_alerts(ALERT, subject="2026-11-10")
    spend(tenant, 500)
    check_send_quota()
    assert alerts() == [("2026-11-10", False)]

    # And anew on another day, for that day's mail
    clock.offset += timedelta(days=1)
    check_send_quota()
    assert alerts() == [("2026-11-10", False)]
    spend(tenant, 800)
    check_send_quota()
    assert alerts() == [("2026-11-10", False), ("2026-11-11", True)]
    clock.offset += timedelta(days=1)
    check_send_quota()
    assert alerts() == [("2026-11-10", False), ("2026-11-11", False)]


def test_without_a_known_quota_nobody_is_told(tenant: Tenant) -> None:
    spend(tenant, 10**6)

    check_send_quota()

    assert alerts() == []
