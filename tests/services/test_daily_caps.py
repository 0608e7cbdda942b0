"""Daily caps on real rows: counted, refused, warned of, given back, day after day."""

from collections.abc import Callable
from datetime import date, datetime, timedelta
from typing import Any

import pytest

from core.clock import database_now
from core.errors import InvalidRequest
from core.ids import new_id
from mailboxes.models import Event, Identity, Tenant
from mailboxes.services import lock_mailbox, publish
from outbound.selectors import look_without_key
from quota import services as quota
from quota.caps import Caps, Counted, Reservation
from quota.errors import DailyCapReached
from quota.models import Allowance, Counter, Hold
from quota.selectors import peek_at_quota
from tests.factories import IdentityFactory

pytestmark = pytest.mark.django_db

NOON = datetime.fromisoformat("2026-05-04T12:00:00Z")
DAY = date(2026, 5, 4)


def send(
    identity: Identity,
    *,
    cap: int = 100,
    tenant_cap: int | None = 100,
    units: int = 1,
    now: datetime = NOON,
    ref: str | None = None,
) -> Reservation:
    return quota.reserve(
        identity.tenant_id,
        ref=ref or new_id("msg"),
        units=units,
        now=now,
        caps=Caps(identity.id, cap, tenant_cap),
    )


def counts(tenant: Tenant) -> dict[str, int]:
    return {
        f"{metric} {bucket}": value
        for metric, bucket, value in Counter.objects.filter(
            tenant=tenant, metric__startswith="sends"
        ).values_list("metric", "bucket", "value")
    }


def rows_of(tenant: Tenant) -> tuple[Any, ...]:
    """Return all that a refusal must leave as it was."""
    return (
        counts(tenant),
        Counter.objects.filter(tenant=tenant).count(),
        Hold.objects.filter(tenant=tenant).count(),
        Allowance.objects.get(tenant=tenant).held,
    )


def test_a_message_counts_once_however_many_recipients_it_has(
    identity: Identity,
) -> None:
    taken = send(identity, units=7)

    assert (taken.day, taken.identity_used, taken.tenant_used) == (DAY, 1, 1)
    assert taken.resets_at == NOON + timedelta(hours=12)
    assert counts(identity.tenant) == {
        f"sends:{identity.id} 2026-05-04": 1,
        "sends 2026-05-04": 1,
    }
    assert Hold.objects.get(tenant=identity.tenant).units == 7


def test_a_fully_suppressed_send_holds_nothing_and_counts(identity: Identity) -> None:
    taken = send(identity, units=0)

    assert taken.identity_used == 1
    assert not Hold.objects.filter(tenant=identity.tenant).exists()


def test_without_caps_nothing_is_counted(identity: Identity) -> None:
    taken = quota.reserve(identity.tenant_id, ref=new_id("msg"), units=2, now=NOON)

    assert taken == Reservation()
    assert counts(identity.tenant) == {}
    assert Hold.objects.get(tenant=identity.tenant).units == 2


@pytest.mark.parametrize(
    ("cap", "tenant_cap", "whose"),
    [(2, 9, "identity"), (9, 2, "tenant"), (2, 2, "identity")],
)
def test_r06_past_a_cap_every_send_is_refused_and_nothing_is_kept(
    identity: Identity, cap: int, tenant_cap: int, whose: str
) -> None:
    for _ in range(2):
        send(identity, cap=cap, tenant_cap=tenant_cap)
    before = rows_of(identity.tenant)

    for _ in range(3):
        with pytest.raises(DailyCapReached) as caught:
            send(identity, cap=cap, tenant_cap=tenant_cap)
        assert caught.value.details == {
            "cap": whose,
            "resets_at": "2026-05-05T00:00:00Z",
        }
    assert rows_of(identity.tenant) == before


def test_a_new_day_begins_at_the_tenants_midnight(identity: Identity) -> None:
    Tenant.objects.filter(id=identity.tenant_id).update(timezone="America/New_York")
    send(identity, cap=1, now=NOON)

    with pytest.raises(DailyCapReached) as caught:
        send(identity, cap=1, now=NOON + timedelta(hours=15))
    assert caught.value.details["resets_at"] == "2026-05-05T04:00:00Z"
    assert send(identity, cap=1, now=NOON + timedelta(hours=16)).identity_used == 1


def test_identities_of_one_tenant_share_its_cap_alone(identity: Identity) -> None:
    sibling = IdentityFactory.create(tenant=identity.tenant)
    send(identity, cap=1, tenant_cap=2)

    assert send(sibling, cap=1, tenant_cap=2).tenant_used == 2
    other = IdentityFactory.create()
    assert send(other, cap=1, tenant_cap=2).tenant_used == 1


def test_the_system_identity_leaves_the_tenants_count_alone(
    identity: Identity,
) -> None:
    taken = send(identity, tenant_cap=None)

    assert taken.tenant_used is None
    assert list(counts(identity.tenant)) == [f"sends:{identity.id} 2026-05-04"]


def test_r04_a_warning_is_given_once_per_scope_threshold_and_day(
    identity: Identity,
) -> None:
    told = [
        (w.scope, w.percent, w.used)
        for _ in range(10)
        for w in send(identity, cap=10, tenant_cap=11).warnings
    ]

    assert told == [
        ("identity", 80, 8),
        ("tenant", 80, 9),
        ("identity", 100, 10),
    ]
    tomorrow = [
        w.percent
        for _ in range(10)
        for w in send(
            identity, cap=10, tenant_cap=99, now=NOON + timedelta(days=1)
        ).warnings
    ]
    assert tomorrow == [80, 100]


def test_a_count_that_comes_back_to_a_mark_is_not_told_again(
    identity: Identity,
) -> None:
    refs = [new_id("msg") for _ in range(8)]
    for ref in refs:
        send(identity, cap=10, ref=ref)
    quota.unreserve(identity.tenant_id, ref=refs[0])

    assert send(identity, cap=10).warnings == ()


def test_a_cap_lowered_below_the_count_is_told_at_the_next_send(
    identity: Identity,
) -> None:
    send(identity, cap=10)
    send(identity, cap=10)

    assert [w.percent for w in send(identity, cap=3).warnings] == [80, 100]


def test_the_warnings_become_events_of_the_mailbox(identity: Identity) -> None:
    taken = send(identity, cap=1)

    lock_mailbox(identity.id)
    publish(
        quota.warning_events(taken),
        tenant_id=identity.tenant_id,
        identity_id=identity.id,
        now=NOON,
    )

    payloads = Event.objects.filter(type="quota.warning").values_list(
        "payload", flat=True
    )
    assert [payload["data"] for payload in payloads] == [
        {"metric": "sends", "used": 1, "limit": 1, "scope": "identity"}
    ] * 2


def test_a_send_that_never_happened_gives_back_exactly_what_it_took(
    identity: Identity,
) -> None:
    send(identity)
    before = rows_of(identity.tenant)
    ref = new_id("msg")
    send(identity, units=3, ref=ref)

    quota.unreserve(identity.tenant_id, ref=ref)
    quota.unreserve(identity.tenant_id, ref=ref)

    assert rows_of(identity.tenant) == before


def test_a_canceled_message_gives_back_its_own_day(identity: Identity) -> None:
    send(identity, now=NOON)
    send(identity, now=NOON + timedelta(days=1))

    quota.release_day(identity.tenant_id, identity_id=identity.id, day=DAY)

    assert counts(identity.tenant) == {
        f"sends:{identity.id} 2026-05-04": 0,
        "sends 2026-05-04": 0,
        f"sends:{identity.id} 2026-05-05": 1,
        "sends 2026-05-05": 1,
    }
    quota.release_day(identity.tenant_id, identity_id=identity.id, day=DAY)
    assert counts(identity.tenant)["sends 2026-05-04"] == 0


def test_the_system_identitys_message_gives_the_tenant_nothing(
    identity: Identity,
) -> None:
    send(identity)

    quota.release_day(
        identity.tenant_id, identity_id=identity.id, day=DAY, is_system=True
    )

    assert counts(identity.tenant)["sends 2026-05-04"] == 1


def test_a_hold_whose_send_never_came_about_is_swept_with_its_count(
    identity: Identity, later: Callable[[float], None]
) -> None:
    send(identity, now=database_now())

    later(601)
    assert quota.sweep_holds() == 1

    assert set(counts(identity.tenant).values()) == {0}
    assert Allowance.objects.get(tenant=identity.tenant).held == 0


def test_a_reserve_that_counts_and_holds_is_two_statements(
    identity: Identity, django_assert_num_queries: Callable[[int], Any]
) -> None:
    with django_assert_num_queries(2):
        send(identity)


def counted_of(identity: Identity) -> Counted:
    return look_without_key(identity.id).counted


def test_a_reached_cap_is_seen_without_a_lock_and_on_its_day_alone(
    identity: Identity, django_assert_num_queries: Callable[[int], Any]
) -> None:
    now = database_now()
    caps = Caps(identity.id, 1, 5)
    peek_at_quota(counted_of(identity), caps, now=now)
    send(identity, cap=1, now=now)
    send(IdentityFactory.create(tenant=identity.tenant), now=now)
    counted = counted_of(identity)

    with django_assert_num_queries(0), pytest.raises(DailyCapReached) as caught:
        peek_at_quota(counted, caps, now=now)

    assert caught.value.details["cap"] == "identity"
    peek_at_quota(counted, caps, now=now + timedelta(days=1))
    peek_at_quota(counted, Caps(identity.id, 2, None), now=now)
    with pytest.raises(DailyCapReached, match="tenant"):
        peek_at_quota(counted, Caps(identity.id, 2, 2), now=now)


@pytest.mark.parametrize("zone", ["Pacific/Kiritimati", "Etc/GMT+12"])
def test_a_reached_cap_is_seen_on_the_day_of_a_tenant_that_is_far_away(
    identity: Identity, zone: str
) -> None:
    Tenant.objects.filter(id=identity.tenant_id).update(timezone=zone)
    now = database_now()
    send(identity, cap=1, now=now)

    with pytest.raises(DailyCapReached) as caught:
        peek_at_quota(counted_of(identity), Caps(identity.id, 1, 5), now=now)

    resets_at = datetime.fromisoformat(caught.value.details["resets_at"])
    assert now < resets_at <= now + timedelta(days=1)


def test_a_change_of_zone_counts_from_the_old_zones_midnight(
    identity: Identity,
) -> None:
    tenant = identity.tenant
    Tenant.objects.filter(id=tenant.id).update(timezone="Europe/Berlin")
    now = database_now()

    days = quota.change_timezone(tenant.id, "Asia/Tokyo")

    tenant.refresh_from_db()
    assert tenant.timezone == "Europe/Berlin"
    assert tenant.tz_next is not None
    assert tenant.tz_next["timezone"] == "Asia/Tokyo"
    assert days.next_from is not None
    before, after = days.next_from - timedelta(seconds=1), days.next_from
    assert send(identity, now=now).day == days.day(now)
    assert send(identity, now=before).resets_at == after
    assert send(identity, now=after).day == days.day(after) != days.day(before)
    peek_at_quota(counted_of(identity), Caps(identity.id, 5, 5), now=after)


def test_a_zone_that_nobody_knows_is_refused_with_its_path(identity: Identity) -> None:
    with pytest.raises(InvalidRequest) as caught:
        quota.change_timezone(identity.tenant_id, "Mars/Olympus")

    assert caught.value.details["errors"][0]["path"] == "timezone"
