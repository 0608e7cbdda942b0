"""Making keys: as wide as their owner, never wider; the secret is not stored."""

from datetime import UTC, datetime

import pytest
from django.conf import settings

from core.errors import InvalidRequest
from mailboxes import keys
from mailboxes.key_services import create_key
from mailboxes.models import ApiKey
from mailboxes.scopes import Scope, allowed_at
from mailboxes.statuses import KeyLevel, TenantMode
from tests.factories import IdentityFactory, TenantFactory

pytestmark = pytest.mark.django_db


def test_a_tenant_key_holds_every_scope_of_its_level_and_only_a_hash_is_stored() -> (
    None
):
    tenant = TenantFactory.create(mode=TenantMode.TEST)

    made = create_key(name="demo", tenant=tenant)

    row = ApiKey.objects.get(id=made.key.id)
    assert (row.level, row.mode, row.tenant_id) == ("tenant", "test", tenant.id)
    assert set(row.permissions) == {str(s) for s in allowed_at(KeyLevel.TENANT)}
    assert row.hash == keys.hash_key(settings.PM_KEY_PEPPER, made.secret)
    assert made.secret.startswith(f"pmk_test_{row.lookup}_")
    assert made.secret not in repr(made)


def test_an_identity_key_names_its_tenant_and_a_platform_key_nobody() -> None:
    identity = IdentityFactory.create()

    mine = create_key(name="mine", identity=identity).key
    ends = datetime(2030, 1, 1, tzinfo=UTC)
    first = create_key(name="first", expires_at=ends).key

    assert (mine.level, mine.tenant, mine.identity) == (
        "identity",
        identity.tenant,
        identity,
    )
    assert (first.level, first.tenant, first.mode) == ("platform", None, "live")
    assert first.expires_at == ends


def test_a_scope_above_the_level_is_refused() -> None:
    with pytest.raises(InvalidRequest) as refused:
        create_key(
            name="wide", tenant=TenantFactory.create(), permissions=[Scope.PLATFORM_OPS]
        )

    assert refused.value.details["reason"] == "permission_not_allowed_for_level"
    assert not ApiKey.objects.exists()


def test_an_empty_list_of_scopes_is_refused() -> None:
    with pytest.raises(InvalidRequest):
        create_key(name="none", tenant=TenantFactory.create(), permissions=[])
