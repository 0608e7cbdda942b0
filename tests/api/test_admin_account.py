"""The admin's page of a tenant's account: what is left, of what, and for how long."""

from datetime import date, timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client
from django.urls import reverse

from core.clock import database_now
from core.ids import new_id
from mailboxes.models import Identity, Tenant
from quota import services as quota
from quota.billing_services import BillingChange, change_billing
from quota.caps import Caps, identity_metric
from quota.models import Allowance, Counter, QuotaAccount, UsageDay
from quota.statuses import BillingMode, Metric
from tests.factories import IdentityFactory, TenantFactory

pytestmark = pytest.mark.django_db


@pytest.fixture
def tenant(settings: Any) -> Tenant:
    """A metered tenant in the middle of a busy day."""
    settings.PM_BILLING = "stripe"
    identity = IdentityFactory.create(tenant__name="<b>Acme</b>")
    tenant = identity.tenant
    change_billing(tenant.id, BillingChange(BillingMode.METERED), actor_key_id=None)
    Allowance.objects.filter(feature="sends").update(used=990)
    quota.reserve(
        tenant.id,
        ref=new_id("msg"),
        units=6,
        now=database_now(),
        caps=Caps(identity.id, 500, 5000),
    )
    return tenant


@pytest.fixture
def ada() -> Client:
    """A member of staff who may look at accounts and tenants."""
    user = User.objects.create_user("ada", is_staff=True)
    seen = ("view_quotaaccount", "view_tenant")
    user.user_permissions.set(Permission.objects.filter(codename__in=seen))
    client = Client()
    client.force_login(user)
    return client


def page_of(tenant: Tenant) -> str:
    return reverse("admin:quota_quotaaccount_change", args=(tenant.id,))


def sent_today(identity: Identity, count: int, day: date | None = None) -> None:
    Counter.objects.create(
        tenant=identity.tenant,
        metric=identity_metric(identity.id),
        bucket=(day or database_now().date()).isoformat(),
        value=count,
    )


def use(tenant: Tenant, day: date, **values: int) -> None:
    UsageDay.objects.bulk_create(
        UsageDay(tenant=tenant, day=day, metric=metric, value=value)
        for metric, value in values.items()
    )


def test_the_page_shows_what_is_granted_used_held_and_left(
    tenant: Tenant, ada: Client
) -> None:
    shown = ada.get(page_of(tenant))

    rows = {row.feature: row for row in shown.context["standings"]}
    sends = rows["sends"]
    assert (sends.granted, sends.used, sends.held, sends.remaining) == (1000, 990, 6, 4)
    caps = shown.context["caps"]
    assert (caps.tenant.used, caps.tenant.limit, caps.tenant.percent) == (1, 5000, 0)
    page = shown.content.decode()
    assert "5,000" in page
    assert "&lt;b&gt;Acme" in page
    assert "<b>Acme" not in page
    assert "A payment is due" not in page


def test_who_is_limited_by_nothing_is_shown_so(ada: Client) -> None:
    shown = ada.get(page_of(TenantFactory.create()))

    page = shown.content.decode()
    assert "limited by no plan" in page
    assert "no limit" in page
    assert "No identity has sent today" in page
    assert "Nothing has been added up yet" in page


def test_a_period_that_nobody_has_begun_counts_as_begun(
    tenant: Tenant, ada: Client
) -> None:
    QuotaAccount.objects.update(period_end=database_now() - timedelta(minutes=1))

    shown = ada.get(page_of(tenant))

    (sends,) = [row for row in shown.context["standings"] if row.feature == "sends"]
    assert (sends.used, sends.held) == (0, 6)
    assert shown.context["period"].end > database_now()


def test_a_payment_that_is_due_stands_out(tenant: Tenant, ada: Client) -> None:
    QuotaAccount.objects.update(past_due_since=database_now() - timedelta(days=2))

    assert "A payment is due" in ada.get(page_of(tenant)).content.decode()


def test_the_identities_nearest_to_their_own_cap_come_first(
    tenant: Tenant, ada: Client
) -> None:
    # Given identities with other caps than the policy's, and others' counts
    cases = [({"daily_cap": 10}, 9), ({}, 100), ({"daily_cap": 0}, 1), ({}, 400)]
    made = []
    for send_policy, count in cases:
        identity = IdentityFactory.create(tenant=tenant, send_policy=send_policy)
        sent_today(identity, count)
        made.append(identity.username)
    system = IdentityFactory.create(tenant=tenant, is_system=True)
    sent_today(system, 5000)
    stranger = IdentityFactory.create()
    sent_today(stranger, 500)
    yesterday = database_now().date() - timedelta(days=1)
    sent_today(IdentityFactory.create(tenant=tenant), 500, yesterday)

    rows = ada.get(page_of(tenant)).context["caps"].identities

    assert [(row.username, row.percent) for row in rows] == [
        (made[2], 100),
        (made[0], 90),
        (made[3], 80),
        (made[1], 20),
        (system.username, 10),
    ]


def test_the_plot_has_each_of_the_last_92_days_with_its_numbers_under_it(
    tenant: Tenant, ada: Client
) -> None:
    # Given use on the first and the last day that are shown, and on others that are not
    today = database_now().date()
    use(tenant, today, sends=12, outbound=5, storage_bytes=7)
    use(tenant, today - timedelta(days=91), sends=3000, outbound=2000)
    use(tenant, today - timedelta(days=92), sends=99, outbound=99)
    use(TenantFactory.create(), today, sends=77, outbound=77)

    shown = ada.get(page_of(tenant))

    page = shown.content.decode()
    assert f"<title>{today:%-d %b}: 12 recipients, 5 messages</title>" in page
    assert ": 3,000 recipients, 2,000 messages</title>" in page
    assert page.count("<title>") == 3  # the page's own among them
    assert shown.context["totals"] == [
        ("Today", 12, 5),
        ("Last 7 days", 12, 5),
        ("Last 30 days", 12, 5),
        ("Last 92 days", 3012, 2005),
    ]


def test_the_page_costs_the_same_few_queries_however_much_there_is(
    tenant: Tenant, ada: Client, django_assert_max_num_queries: Any
) -> None:
    for _ in range(30):
        sent_today(IdentityFactory.create(tenant=tenant), 3)
    today = database_now().date()
    for n in range(92):
        use(tenant, today - timedelta(days=n), **dict.fromkeys(Metric.values, 5))

    with django_assert_max_num_queries(10):
        shown = ada.get(page_of(tenant))

    assert shown.status_code == 200
    assert len(shown.context["caps"].identities) == 5


def test_the_tenants_page_leads_to_it(tenant: Tenant, ada: Client) -> None:
    page = ada.get(reverse("admin:mailboxes_tenant_change", args=(tenant.id,)))

    assert f'href="{page_of(tenant)}"' in page.content.decode()


def test_the_list_opens_and_finds_by_slug(tenant: Tenant, ada: Client) -> None:
    TenantFactory.create()
    where = reverse("admin:quota_quotaaccount_changelist")

    page = ada.get(where, {"q": tenant.slug})

    assert [row.tenant_id for row in page.context["cl"].result_list] == [tenant.id]
    assert ada.get(where).status_code == 200


def test_no_account_is_changed_here_and_not_everybody_looks(
    tenant: Tenant, ada: Client
) -> None:
    before = list(QuotaAccount.objects.values())

    assert ada.post(page_of(tenant), {"plan_id": "team"}).status_code == 403
    assert list(QuotaAccount.objects.values()) == before
    User.objects.get().user_permissions.clear()
    assert ada.get(page_of(tenant)).status_code == 403
    assert Client().get(page_of(tenant)).status_code == 302
