"""Each list is read from an index: a page costs the same with a million rows."""

from typing import Any

import pytest
from django.db import connection
from django.db.models import QuerySet

from core.ids import new_id
from mailboxes.models import ApiKey, AuditRow, Identity, Tenant
from mailboxes.statuses import KeyLevel
from suppressions.models import SendListEntry, Suppression
from suppressions.statuses import ListKind, SuppressionReason
from tests.factories import IdentityFactory, TenantFactory, WebhookEndpointFactory
from webhooks.models import WebhookAttempt, WebhookEndpoint

pytestmark = pytest.mark.django_db
TENANT = "ten_" + "0" * 26
NEWEST = ("-created_at", "-id")
LISTED = (
    *(Suppression, SendListEntry, ApiKey, Identity, AuditRow),
    *(WebhookEndpoint, WebhookAttempt),
)


@pytest.mark.parametrize(
    ("found", "index"),
    [
        (Suppression.objects.filter(tenant_id=TENANT), "suppressions_by_time"),
        (
            Suppression.objects.filter(tenant_id=TENANT, reason="complaint"),
            "suppressions_by_reason",
        ),
        (
            SendListEntry.objects.filter(
                tenant_id=TENANT, direction="send", kind="block"
            ),
            "sender_lists_by_time",
        ),
        (ApiKey.objects.filter(tenant_id=TENANT), "api_keys_by_time"),
        (Identity.objects.filter(tenant_id=TENANT), "identities_by_time"),
        (Identity.objects.all(), "identities_of_all_by_time"),
        (AuditRow.objects.filter(target_id="x"), "audit_by_target_alone"),
        (
            WebhookEndpoint.objects.filter(tenant_id=TENANT),
            "webhook_endpoints_by_tenant",
        ),
        (
            WebhookAttempt.objects.filter(endpoint_id="whk_x", status="dead"),
            "webhook_attempts_by_endpoint",
        ),
    ],
)
def test_a_page_is_read_from_its_index(found: QuerySet[Any], index: str) -> None:
    # Given rows of thirty tenants, which is what tells one index from another, and a
    # planner that may not read so small a table whole
    for tenant in TenantFactory.create_batch(30):
        _fill(tenant)
    with connection.cursor() as cursor:
        cursor.execute(f"ANALYZE {', '.join(m._meta.db_table for m in LISTED)}")
        for way in ("seqscan", "bitmapscan", "sort"):
            cursor.execute(f"SET LOCAL enable_{way} = off")

    plan = found.order_by(*NEWEST)[:26].explain()

    assert f"using {index} " in plan, plan


def _fill(tenant: Tenant) -> None:
    """Store ten rows of each kind for the tenant."""
    numbers = range(10)
    Identity.objects.bulk_create(
        IdentityFactory.build(tenant=tenant, username=f"{tenant.slug}-{n}")
        for n in numbers
    )
    ApiKey.objects.bulk_create(
        ApiKey(
            id=new_id("key"),
            lookup=f"{tenant.id[-10:]}{n:02}",
            name="reader",
            level=KeyLevel.TENANT,
            tenant=tenant,
            mode=tenant.mode,
        )
        for n in numbers
    )
    Suppression.objects.bulk_create(
        Suppression(
            tenant=tenant, address_hash=str(n), reason=list(SuppressionReason)[n % 3]
        )
        for n in numbers
    )
    SendListEntry.objects.bulk_create(
        SendListEntry(
            tenant=tenant,
            direction="send",
            kind=list(ListKind)[n % 2],
            entry=f"{n}.example",
        )
        for n in numbers
    )
    AuditRow.objects.bulk_create(
        AuditRow(id=new_id("aud"), tenant=tenant, action="made", target_id=str(n))
        for n in numbers
    )
    endpoint, *_ = WebhookEndpointFactory.create_batch(3, tenant=tenant)
    WebhookAttempt.objects.bulk_create(
        WebhookAttempt(
            id=new_id("dlv"),
            endpoint=endpoint,
            event_id=new_id("evt"),
            event_type="message.sent",
            attempt=1,
            status="dead",
        )
        for _ in numbers
    )
