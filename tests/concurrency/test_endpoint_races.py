"""Endpoints made, turned, tested and deleted by many at once."""

from collections import Counter
from datetime import timedelta
from functools import partial

import pytest
from django.db import transaction

from core.clock import database_now
from core.errors import InvalidRequest
from mailboxes.callers import Caller
from mailboxes.key_services import create_key
from mailboxes.models import Identity
from pylota.api.authentication import recognise
from tests.factories import AddressFactory, WebhookEndpointFactory
from tests.support.lived_in import told
from tests.support.outbox import happen
from tests.support.racers import Racers
from webhooks.errors import WebhookLimitReached, WebhookNotFound
from webhooks.models import WebhookDispatch, WebhookEndpoint
from webhooks.outbox import Numbered, number_events
from webhooks.replay import NamedEvents, replay
from webhooks.secrets import open_secrets
from webhooks.services import (
    NewSecret,
    create_endpoint,
    delete_endpoint,
    pass_test,
    rotate_secret,
    update_endpoint,
)
from webhooks.statuses import DisabledReason as R
from webhooks.wishes import NewEndpoint

pytestmark = pytest.mark.django_db(transaction=True)
WISH = NewEndpoint(url="https://127.0.0.1/hook", events=["*"])


@pytest.fixture
def identity(transactional_db: None) -> Identity:
    """An identity that may send."""
    identity: Identity = AddressFactory.create().identity
    return identity


@pytest.fixture
def caller(identity: Identity) -> Caller:
    """A key of its tenant."""
    secret = create_key(name="t", tenant=identity.tenant).secret
    return recognise(f"Bearer {secret}").caller()


def make(tenant_id: str | None, caller: Caller) -> NewSecret:
    with transaction.atomic(durable=True):
        return create_endpoint(WISH, tenant_id=tenant_id, caller=caller)


@pytest.mark.parametrize("of", ["tenant", "platform"])
def test_eight_at_nineteen_leave_twenty(
    racers: Racers, caller: Caller, identity: Identity, of: str
) -> None:
    tenant_id = identity.tenant_id if of == "tenant" else None
    WebhookEndpointFactory.create_batch(19, tenant=tenant_id and identity.tenant)
    for _ in range(12):
        made = racers.at_once([partial(make, tenant_id, caller)] * 8)

        assert Counter(map(type, made)) == {NewSecret: 1, WebhookLimitReached: 7}
        assert WebhookEndpoint.objects.filter(tenant_id=tenant_id).count() == 20
        (won,) = (one for one in made if isinstance(one, NewSecret))
        won.endpoint.delete()


def test_rotations_at_once_leave_the_secrets_of_the_last_two(
    racers: Racers, caller: Caller, identity: Identity
) -> None:
    endpoint = WebhookEndpointFactory.create(tenant=identity.tenant)

    def turn() -> str:
        with transaction.atomic(durable=True):
            return rotate_secret(endpoint.id, overlap_hours=1, caller=caller).secret

    for _ in range(10):
        turned = racers.at_once([turn] * 8)

        endpoint.refresh_from_db()
        left = open_secrets(endpoint, now=database_now())
        assert len(left) == len(set(turned) & set(left)) == 2
        assert len(set(turned)) == 8


def test_a_test_that_passes_never_turns_on_another_url(
    racers: Racers, caller: Caller, identity: Identity
) -> None:
    endpoint = WebhookEndpointFactory.create(tenant=identity.tenant)
    ends = set()
    for n in range(40):
        old, new = f"https://127.0.0.1/{n}/old", f"https://127.0.0.1/{n}/new"
        WebhookEndpoint.objects.update(
            url=old, disabled_reason=R.URL_CHANGED, disabled_at=database_now()
        )

        passed, _ = racers.at_once(
            [
                partial(pass_test, endpoint.id, url=old, caller=caller),
                partial(update_endpoint, endpoint.id, {"url": new}, caller=caller),
            ]
        )

        endpoint.refresh_from_db()
        assert (endpoint.url, endpoint.disabled_reason) == (new, R.URL_CHANGED)
        ends.add(passed)
    assert ends <= {True, False}


def send_again(endpoint_id: str, event_ids: list[str], caller: Caller) -> int:
    with transaction.atomic(durable=True):
        return replay(endpoint_id, NamedEvents(event_ids), caller=caller)


def test_a_replay_and_a_deletion_come_one_after_the_other(
    racers: Racers, caller: Caller, identity: Identity
) -> None:
    events = [told(identity) for _ in range(5)]
    for n in range(20):
        endpoint = WebhookEndpointFactory.create(tenant=identity.tenant)
        if n % 2:
            send_again(endpoint.id, events[:3], caller)

        again = partial(send_again, endpoint.id, events, caller)
        ends = racers.at_once(
            [partial(delete_endpoint, endpoint.id, caller=caller), again, again, again]
        )

        assert ends[0] is None
        for end in ends[1:]:
            # off, on its way to be gone
            assert end == 5 or isinstance(end, WebhookNotFound | InvalidRequest), end
        assert not WebhookDispatch.objects.exists()
        assert not WebhookEndpoint.objects.exists()


def test_a_deletion_fails_nobody_who_numbers_events(
    racers: Racers, caller: Caller, identity: Identity
) -> None:
    long_ago = database_now() - timedelta(days=1)
    for _ in range(15):
        endpoint = WebhookEndpointFactory.create(
            tenant=identity.tenant, created_at=long_ago
        )
        for _ in range(8):
            happen(identity)

        deleted, numbered = racers.at_once(
            [partial(delete_endpoint, endpoint.id, caller=caller), number_events]
        )

        assert deleted is None
        assert isinstance(numbered, Numbered), numbered
        assert not WebhookDispatch.objects.exists()
        while number_events().events:
            pass


def test_replays_of_the_same_events_at_once_leave_one_row_each(
    racers: Racers, caller: Caller, identity: Identity
) -> None:
    endpoint = WebhookEndpointFactory.create(tenant=identity.tenant)
    events = [told(identity) for _ in range(20)]
    for n in range(15):
        orders = [events[n:] + events[:n], events[::-1]] * 4

        ends = racers.at_once(
            [partial(send_again, endpoint.id, order, caller) for order in orders]
        )

        assert ends == [20] * 8
        assert WebhookDispatch.objects.count() == 20
        if n % 2:
            WebhookDispatch.objects.all().delete()


def test_deletions_at_once_delete_once(
    racers: Racers, caller: Caller, identity: Identity
) -> None:
    for _ in range(10):
        endpoint = WebhookEndpointFactory.create(tenant=identity.tenant)

        ends = racers.at_once(
            [partial(delete_endpoint, endpoint.id, caller=caller)] * 4
        )

        kinds = Counter(type(end) for end in ends)
        assert kinds == {type(None): 1, WebhookNotFound: 3}
