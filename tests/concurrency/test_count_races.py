"""The last inbox of a plan, wanted by many: it goes to one, and no crash keeps it."""

from collections import Counter
from collections.abc import Iterator
from functools import partial
from typing import Any

import psycopg
import pytest
from django.db import OperationalError, connection, transaction

from core.clock import database_now
from core.ids import new_id
from domains.selectors import seen_by_addresses
from domains.services import ensure_platform_domain
from mailboxes.identity_rules import NewIdentity
from mailboxes.identity_services import create_identity, delete_identity
from mailboxes.models import Identity, Tenant
from mailboxes.services import hold_names
from quota import usage_services
from quota.billing_services import BillingChange, change_billing
from quota.counts import count_gone, count_new, hold_count
from quota.errors import BillingLimit
from quota.models import Allowance, Hold, QuotaAccount, UsageDay
from quota.models import Counter as Counted
from quota.services import settle
from quota.statuses import BillingMode, Feature
from tests.factories import AddressFactory
from tests.support.database import database_url
from tests.support.racers import Racers
from tests.support.waiting import until

MANY = 50
DOMAINS = Feature.CUSTOM_DOMAINS

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def tenant(settings: Any) -> Tenant:
    """A tenant with one identity, and a plan for two."""
    settings.PM_BILLING = "stripe"
    made: Tenant = AddressFactory.create().identity.tenant
    change_billing(made.id, BillingChange(BillingMode.METERED), actor_key_id=None)
    grant(made, 2)
    ensure_platform_domain()
    return made


@pytest.fixture
def crowd() -> Iterator[Racers]:
    """As many threads as want the last inbox."""
    threads = Racers(MANY)
    yield threads
    threads.close()


def grant(tenant: Tenant, granted: int) -> None:
    of_inboxes(tenant).update(granted=granted)


def of_inboxes(tenant: Tenant) -> Any:
    return Allowance.objects.filter(tenant=tenant, feature=Feature.INBOXES)


def assert_the_count_is_the_rows(tenant: Tenant, n: int) -> None:
    live = Identity.objects.filter(tenant=tenant, status__in=("active", "paused"))
    assert of_inboxes(tenant).values_list("used", "held").get() == (n, 0)
    assert live.count() == n
    assert not Hold.objects.exists()


def make(tenant: Tenant, name: str) -> Identity:
    """Make an identity as the API does, in one transaction."""
    with transaction.atomic(durable=True):
        return _make(tenant, name)


def _make(tenant: Tenant, name: str) -> Identity:
    hold_names(tenant.id)
    wanted = NewIdentity(name, {"display_name": name})
    platform = seen_by_addresses(ensure_platform_domain())
    made = create_identity(tenant, wanted, platform=platform)
    count_new(tenant.id, Feature.INBOXES, ref=made.id)
    return made


def delete(identity: Identity) -> None:
    """Delete an identity as the API does."""
    with transaction.atomic(durable=True):
        delete_identity(identity.id)
        count_gone(identity.tenant_id, Feature.INBOXES)


def test_the_last_inbox_goes_to_one_of_fifty(tenant: Tenant, crowd: Racers) -> None:
    got = crowd.at_once([partial(make, tenant, f"n{k}") for k in range(MANY)])

    assert Counter(map(type, got)) == {Identity: 1, BillingLimit: MANY - 1}
    assert_the_count_is_the_rows(tenant, 2)


def test_the_last_domain_is_held_for_one_of_fifty(
    tenant: Tenant, crowd: Racers
) -> None:
    of_domains = Allowance.objects.filter(tenant=tenant, feature=DOMAINS)
    for n in range(10):
        of_domains.update(granted=n + 2)  # one is there

        got = crowd.at_once([partial(hold, tenant) for _ in range(MANY)])

        assert Counter(map(type, got)) == {type(None): 1, BillingLimit: MANY - 1}
        assert of_domains.values_list("used", "held").get() == (1, n + 1)
        assert Hold.objects.filter(feature=DOMAINS).count() == n + 1


def hold(tenant: Tenant) -> None:
    with transaction.atomic(durable=True):
        hold_count(tenant.id, DOMAINS, ref=new_id("dom"))


@pytest.mark.parametrize("is_deleted", [True, False])
def test_who_waits_for_a_deletion_gets_its_place_if_it_comes_about(
    tenant: Tenant, racers: Racers, is_deleted: bool
) -> None:
    other = make(tenant, "other")

    # Given a deletion that is not committed yet, and one who wants its place
    def deletion() -> None:
        with transaction.atomic(durable=True):
            delete_identity(other.id)
            count_gone(tenant.id, Feature.INBOXES)
            until(someone_waits)
            transaction.set_rollback(not is_deleted)

    _, made = racers.at_once([deletion, partial(wait_and_make, tenant)])

    assert isinstance(made, Identity if is_deleted else BillingLimit)
    assert_the_count_is_the_rows(tenant, 2)


def wait_and_make(tenant: Tenant) -> Identity:
    until(lambda: is_locked(tenant))
    return make(tenant, "new")


def is_locked(tenant: Tenant) -> bool:
    """Tell whether somebody else has the tenant's account."""
    with transaction.atomic():
        own = QuotaAccount.objects.select_for_update(no_key=True, skip_locked=True)
        return not own.filter(tenant=tenant).exists()


def someone_waits() -> bool:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
            " AND wait_event_type = 'Lock'"
        )
        return bool(cursor.fetchone()[0])


def test_made_and_deleted_at_once_the_count_is_always_the_rows(
    tenant: Tenant, racers: Racers
) -> None:
    seen: Counter[str] = Counter()
    kept = make(tenant, "kept")
    for n in range(25):
        _, got = racers.at_once([partial(delete, kept), partial(make, tenant, f"n{n}")])

        assert isinstance(got, Identity | BillingLimit), got
        seen[type(got).__name__] += 1
        kept = got if isinstance(got, Identity) else make(tenant, f"m{n}")
        assert_the_count_is_the_rows(tenant, 2)
    assert seen["Identity"]


@pytest.mark.parametrize("is_killed", [False, True])
def test_what_is_not_committed_takes_no_place(tenant: Tenant, is_killed: bool) -> None:
    """Row and count are one transaction, with no hold: a crash leaves neither."""

    def crash() -> None:
        with transaction.atomic(durable=True):
            _make(tenant, "lost")
            if is_killed:
                kill_the_session()
                database_now()
            raise RuntimeError("crash")

    for _ in range(3):
        with pytest.raises(OperationalError if is_killed else RuntimeError):
            crash()
        connection.close()
        assert_rows_of_one(tenant)

    make(tenant, "last")
    assert_the_count_is_the_rows(tenant, 2)


def assert_rows_of_one(tenant: Tenant) -> None:
    assert Identity.objects.filter(tenant=tenant).count() == 1
    assert of_inboxes(tenant).get().used == 0  # nobody has counted yet
    assert not Hold.objects.exists()


def kill_the_session() -> None:
    """End this connection from outside, as a lost host would."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        pid = cursor.fetchone()[0]
    with psycopg.connect(database_url(), autocommit=True) as other:
        other.execute("SELECT pg_terminate_backend(%s, 5000)", [pid])


def test_what_is_counted_while_it_is_written_down_is_not_lost(
    tenant: Tenant, racers: Racers
) -> None:
    def work() -> None:
        for n in range(20):
            with transaction.atomic(durable=True):
                settle(tenant.id, ref=f"msg_{n}", consume=2, is_first=True)
            with transaction.atomic(durable=True):
                usage_services.count_inbound(tenant.id, now=database_now())

    def write_down() -> None:
        for _ in range(20):
            QuotaAccount.objects.filter(tenant=tenant).update(usage_rolled_at=None)
            usage_services.roll_up()

    got = racers.at_once([*[work] * 6, *[write_down] * 2])
    assert got == [None] * 8
    write_down()

    totals: Counter[str] = Counter()
    for metric, value in UsageDay.objects.values_list("metric", "value"):
        totals[metric] += value
    assert totals == {"sends": 240, "outbound": 120, "inbound": 120, "storage_bytes": 0}
    assert Counted.objects.filter(metric="usage:sends").exists()
