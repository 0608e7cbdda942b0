"""A reader of the feed while many write: each event once, none skipped."""

import random
import threading
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from itertools import pairwise
from typing import Any

import httpx
import pytest
from django.core.handlers.wsgi import WSGIHandler
from django.db import connection, connections, transaction
from pytest_django import Settings

from core.clock import database_now
from mailboxes.key_services import create_key
from mailboxes.models import Event as EventRow
from mailboxes.models import Identity
from mailboxes.services import NewEvent, lock_mailbox, publish
from pylota_client import Client, Event
from tests.factories import IdentityFactory, TenantFactory
from tests.support.outbox import DATA, happen
from webhooks import outbox

pytestmark = pytest.mark.django_db(transaction=True)

WRITERS, TRANSACTIONS, AT_ONCE = 8, 50, 25
TYPE = "message.canceled"
Seen = list[Event]
"""What the reader has seen by now, in order."""


@pytest.fixture(autouse=True)
def _no_limits(settings: Settings) -> None:
    settings.PM_RATE_PER_KEY = settings.PM_RATE_PER_TENANT = 0


@pytest.fixture
def identities(transactional_db: None) -> list[Identity]:
    """Twice as many mailboxes as writers, of one tenant."""
    tenant = TenantFactory.create()
    return [IdentityFactory.create(tenant=tenant) for _ in range(2 * WRITERS)]


@pytest.fixture
def client(identities: list[Identity]) -> Iterator[Client]:
    """The Python client with the tenant's key, before the application itself."""
    secret = create_key(name="reader", tenant=identities[0].tenant).secret
    transport = httpx.WSGITransport(app=WSGIHandler())
    with Client("http://testserver", secret, transport=transport) as client:
        yield client


def write(number: int, identities: Sequence[Identity], seen: Seen) -> None:
    """Store many events; some transactions wait until a reader has passed them."""
    chance = random.Random(number)  # noqa: S311  disorder, not a secret
    try:
        for turn in range(TRANSACTIONS):
            identity = chance.choice(identities)
            with transaction.atomic():
                lock_mailbox(identity.id)
                publish(
                    [NewEvent(TYPE, DATA[TYPE])] * AT_ONCE,
                    tenant_id=identity.tenant_id,
                    identity_id=identity.id,
                    now=database_now(),
                )
                if turn % 16 == number:
                    wait_to_be_passed(identity, seen)
    finally:
        connections.close_all()


def wait_to_be_passed(identity: Identity, seen: Seen) -> None:
    """Wait until the reader has seen an event that was stored later; a second at most.

    Nobody may be left to overtake: then it commits like the others.
    """
    own = EventRow.objects.filter(identity=identity).latest("arrival").arrival
    later = EventRow.objects.filter(arrival__gt=own)
    until = time.monotonic() + 1
    while time.monotonic() < until:
        if seen and later.filter(id=seen[-1].id).exists():
            break
        time.sleep(0.005)


def number(stopping: threading.Event) -> None:
    """Number as a dispatcher does, and without a pause."""
    try:
        while not stopping.is_set():
            outbox.number_events()
    finally:
        connections.close_all()


def read(client: Client, amount: int, seen: Seen) -> None:
    """Follow the feed until so many events came, or for half a minute."""
    until = time.monotonic() + 30
    while len(seen) < amount and time.monotonic() < until:
        for event in client.events(after_id=seen[-1].id if seen else None):
            seen.append(event)
    connections.close_all()


def test_each_of_ten_thousand_events_is_seen_once_while_eight_write(
    identities: list[Identity], client: Client
) -> None:
    # Given eight writers, two that number, and a reader
    amount, stopping = WRITERS * TRANSACTIONS * AT_ONCE, threading.Event()
    seen: Seen = []
    with ThreadPoolExecutor(WRITERS + 3) as pool:
        reading = pool.submit(read, client, amount, seen)
        numbering = [pool.submit(number, stopping) for _ in range(2)]
        writing = [pool.submit(write, n, identities, seen) for n in range(WRITERS)]
        try:
            for each in writing:
                each.result()
            reading.result()
        finally:
            stopping.set()
        for one in numbering:
            one.result()

    # Then it saw each event once, in the order of the feed
    stored = EventRow.objects.order_by("position").values_list("id", flat=True)
    ids = [event.id for event in seen]
    assert len(ids) == amount == 10_000
    assert ids == list(stored)
    # (though many were overtaken by what was stored later)
    arrivals = list(stored.values_list("arrival", flat=True))
    assert sum(a > b for a, b in pairwise(arrivals)) >= WRITERS

    # And each identity's in the order of its sequence, without a gap
    sequences: dict[str | None, list[int | None]] = defaultdict(list)
    for event in seen:
        sequences[event.identity_id].append(event.sequence)
    for found in sequences.values():
        assert found == list(range(1, len(found) + 1))


def test_an_event_that_is_stored_first_and_committed_last_is_seen(
    identities: list[Identity], client: Client
) -> None:
    """R40: while it is open, a reader follows the feed to its end."""
    early, late = identities[0], identities[1]

    # Given an event whose transaction is still open while another's has committed
    with ExitStack() as stack:
        held = stack.enter_context(closing(connection.copy()))
        with held.cursor() as cursor:
            cursor.execute("BEGIN")
            first = _store(cursor, early)
            second = happen(late)
            outbox.number_all()

            # When a reader reads to the end in between, and the first then commits
            before = list(client.events())
            cursor.execute("COMMIT")
    outbox.number_all()
    after = list(client.events(after_id=before[-1].id))

    # Then it has seen both
    assert [event.id for event in before] == [second]
    assert [event.id for event in after] == [first]


def _store(cursor: Any, identity: Identity) -> str:
    """Store an event on a session of its own, as ``publish`` does."""
    event_id = "evt_" + "0" * 26
    cursor.execute(
        "INSERT INTO events (id, tenant_id, identity_id, owner_kind, owner_id, seq,"
        " type, payload, occurred_at) VALUES (%(id)s, %(tenant)s, %(identity)s,"
        " 'mailbox', %(identity)s, 1, 'message.canceled',"
        " jsonb_build_object('id', %(id)s::text, 'type', 'message.canceled'),"
        " clock_timestamp())",
        {"id": event_id, "tenant": identity.tenant_id, "identity": identity.id},
    )
    return event_id
