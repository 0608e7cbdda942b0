"""API keys made, rotated and revoked by many at once."""

from functools import partial

import pytest
from django.db import transaction

from core.clock import database_now
from core.errors import InvalidRequest, KeyLimitReached, KeyRevoked
from mailboxes.key_requests import revoke_key, rotate_secret
from mailboxes.key_services import MOST_LIVE_KEYS, NewKey, create_key
from mailboxes.keys import NOBODY
from mailboxes.models import ApiKey, Identity, Tenant
from mailboxes.selectors import StoredKey, key_by_lookup
from pylota.api.authentication import recognise
from tests.factories import IdentityFactory, TenantFactory
from tests.support.racers import Racers

pytestmark = pytest.mark.django_db(transaction=True)


def fill(tenant: Tenant, count: int) -> None:
    template = create_key(name="filler", tenant=tenant).key
    ApiKey.objects.bulk_create(
        ApiKey(
            **{
                **{
                    f.attname: getattr(template, f.attname) for f in ApiKey._meta.fields
                },
                "id": f"key_{n:026d}",
                "lookup": f"{n:012d}",
            }
        )
        for n in range(count - 1)
    )


def make(tenant: Tenant, identity: Identity | None) -> NewKey:
    return create_key(name="one more", tenant=tenant, identity=identity)


def test_twenty_at_ninety_nine_leave_a_hundred(transactional_db: None) -> None:
    identity = IdentityFactory.create()
    tenant = identity.tenant
    fill(tenant, MOST_LIVE_KEYS - 1)
    racers = Racers(20)
    try:
        for _ in range(5):
            made = racers.at_once(
                [partial(make, tenant, identity if n % 2 else None) for n in range(20)]
            )
            won = [one for one in made if isinstance(one, NewKey)]
            assert len(won) == 1
            assert {type(one) for one in made} == {NewKey, KeyLimitReached}
            assert ApiKey.objects.filter(tenant=tenant, revoked_at=None).count() == 100
            ApiKey.objects.filter(id=won[0].key.id).update(revoked_at=database_now())
    finally:
        racers.close()


def test_what_has_ended_leaves_room_and_other_tenants_do_not_count() -> None:
    tenant, other = TenantFactory.create(), TenantFactory.create()
    fill(tenant, MOST_LIVE_KEYS)
    with pytest.raises(KeyLimitReached) as refused:
        make(tenant, None)
    assert refused.value.details == {"limit": 100}

    make(other, None)
    create_key(name="platform")
    ApiKey.objects.filter(tenant=tenant, id=f"key_{0:026d}").update(
        expires_at=database_now()
    )

    make(tenant, None)


def test_a_revocation_counts_for_every_thread_at_once(racers: Racers) -> None:
    tenant = TenantFactory.create()
    for _ in range(10):
        made = create_key(name="leaked", tenant=tenant)
        known = [partial(recognise, f"Bearer {made.secret}")] * 8
        found = racers.at_once(known)  # each on a connection of its own
        assert {key.key_id for key in found if isinstance(key, StoredKey)} == {
            made.key.id
        }
        assert len(found) == 8

        revoke_key(made.key.id, caller=recognise(f"Bearer {made.secret}").caller())

        assert {type(c) for c in racers.at_once(known)} == {KeyRevoked}


def test_rotations_at_once_leave_two_secrets_and_a_revocation_none(
    racers: Racers,
) -> None:
    owner = create_key(name="owner")
    caller = recognise(f"Bearer {owner.secret}").caller()

    def turn(key_id: str) -> NewKey:
        with transaction.atomic(durable=True):
            return rotate_secret(key_id, overlap_hours=1, caller=caller)

    for _ in range(10):
        made = create_key(name="turned")
        turned = racers.at_once([partial(turn, made.key.id)] * 8)
        secrets = [one.secret for one in turned if isinstance(one, NewKey)]
        assert len(secrets) == 8
        assert sum(map(_counts, secrets)) == 2

        ended = racers.at_once(
            [partial(revoke_key, made.key.id, caller=caller)]
            + [partial(turn, made.key.id)] * 7
        )
        late = [one.secret for one in ended if isinstance(one, NewKey)]
        assert not any(map(_counts, secrets + late))
        assert {type(one) for one in ended} <= {type(None), NewKey, InvalidRequest}
        stored = key_by_lookup(made.key.lookup)
        assert stored.is_revoked
        assert stored.previous_hash == NOBODY


def _counts(secret: str) -> bool:
    try:
        recognise(f"Bearer {secret}")
    except Exception:
        return False
    return True
