"""Each list is read from an index: a page costs the same with a million rows."""

from typing import Any

import pytest
from django.db import connection
from django.db.models import QuerySet

from mailboxes.models import ApiKey, AuditRow, Identity
from suppressions.models import SendListEntry, Suppression

pytestmark = pytest.mark.django_db
TENANT = "ten_" + "0" * 26
NEWEST = ("-created_at", "-id")


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
    ],
)
def test_a_page_is_read_from_its_index(found: QuerySet[Any], index: str) -> None:
    with connection.cursor() as cursor:  # an empty table is read whole otherwise
        for way in ("seqscan", "bitmapscan", "sort"):
            cursor.execute(f"SET LOCAL enable_{way} = off")

    plan = found.order_by(*NEWEST)[:26].explain()

    assert f"using {index} " in plan, plan
