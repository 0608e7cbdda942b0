"""A database that goes back in time: whoever was ahead of it misses nothing after."""

from io import StringIO
from typing import Any

import pytest
from django.core.management import call_command
from pytest_django import Settings

from core.database import execute, fetch_one
from mailboxes.key_services import create_key
from mailboxes.models import Event, Identity, Mailbox, Tenant
from tests.support.api import ApiClient, code_of
from tests.support.outbox import happen, happen_to_tenant
from webhooks import outbox

pytestmark = pytest.mark.django_db


class Dump:
    """What a dump holds of the feed: rows, counters, and where the places stood."""

    def __init__(self) -> None:
        """Take it now."""
        self._events = list(Event.objects.values())
        self._mailboxes = list(Mailbox.objects.values_list("pk", "next_event_seq"))
        self._tenants = list(Tenant.objects.values_list("pk", "next_event_seq"))
        row = fetch_one("SELECT last_value FROM events_position_seq")
        assert row is not None
        self._place = row[0]

    def restore(self) -> None:
        """Let everything be as it was."""
        Event.objects.all().delete()
        Event.objects.bulk_create([Event(**row) for row in self._events])
        for pk, seq in self._mailboxes:
            Mailbox.objects.filter(pk=pk).update(next_event_seq=seq)
        for pk, seq in self._tenants:
            Tenant.objects.filter(pk=pk).update(next_event_seq=seq)
        execute("SELECT setval('events_position_seq', %(at)s)", {"at": self._place})


@pytest.fixture
def client(identity: Identity, settings: Settings) -> ApiClient:
    """A client of the tenant."""
    settings.PM_RATE_PER_KEY = settings.PM_RATE_PER_TENANT = 0
    return ApiClient(create_key(name="t", tenant=identity.tenant).secret, identity.id)


def read(client: ApiClient, query: str = "") -> dict[str, Any]:
    found: dict[str, Any] = client.get(f"/v1/events?limit=2&{query}").json()
    return found


def rest(client: ApiClient, query: str = "", *, cursor: str | None = None) -> list[str]:
    """Return what a read holds, from this cursor on if there is one."""
    found: list[str] = []
    while True:
        page = read(client, query if cursor is None else f"{query}&cursor={cursor}")
        found += [event["id"] for event in page["data"]]
        if (cursor := page["next_cursor"]) is None:
            return found


def test_a_reader_past_the_restored_moment_sees_every_later_event(
    identity: Identity, client: ApiClient
) -> None:
    # Given two events in a dump, and a reader that has got further since
    kept = [happen(identity), happen_to_tenant(identity.tenant)]
    outbox.number_all()
    dump = Dump()
    lost = [happen(identity) for _ in range(7)]
    outbox.number_all()
    after = f"after_id={lost[0]}"
    first = read(client, after)
    second = read(client, f"{after}&cursor={first['next_cursor']}")
    held, seen = second["next_cursor"], second["data"][-1]
    assert seen["id"] in lost

    # When the database is restored, jumps ahead, and goes on
    dump.restore()
    said = StringIO()
    call_command("jump_ahead", stdout=said)
    later = [happen(identity) for _ in range(3)]
    later.append(happen_to_tenant(identity.tenant))
    outbox.number_all()

    # Then its read goes on with every later event, in order
    assert rest(client, after, cursor=held) == later
    # Who resumes after an event that is lost is told so, and reads from the start
    gone = client.get(f"/v1/events?after_id={seen['id']}")
    assert (gone.status_code, code_of(gone)) == (410, "cursor_expired")
    assert rest(client) == kept + later
    assert rest(client, f"after_id={kept[0]}") == [kept[1], *later]
    # No sequence looks stale to who has seen the lost ones
    fresh = client.get(f"/v1/events?after_id={kept[1]}").json()["data"]
    assert all(e["sequence"] > seen["sequence"] for e in fresh if e["identity_id"])
    place = Event.objects.get(id=later[0]).position or 0
    assert said.getvalue() == f"the feed goes on after place {place - 1}\n"


def test_without_the_jump_that_reader_would_miss_some(
    identity: Identity, client: ApiClient
) -> None:
    """The fault itself, so that the test above is seen to hold something."""
    happen(identity)
    outbox.number_all()
    dump = Dump()
    for _ in range(4):
        happen(identity)
    outbox.number_all()
    held = read(client, f"cursor={read(client)['next_cursor']}")["next_cursor"]

    dump.restore()
    later = [happen(identity) for _ in range(3)]
    outbox.number_all()

    assert rest(client, cursor=held) == []
    assert later


def test_what_was_re_applied_from_the_lost_history_stays_below(
    identity: Identity,
) -> None:
    # Given a restore after which events of the lost time were put back in
    dump = Dump()
    happen(identity)
    outbox.number_all()
    rescued = list(Event.objects.values())
    dump.restore()
    Event.objects.bulk_create([Event(**row) for row in rescued])

    # When numbers jump, twice
    outbox.jump_ahead()
    place = outbox.jump_ahead()
    event_id = happen(identity)
    outbox.number_all()

    # Then what comes is past them, and no number is given again
    assert Event.objects.get(id=event_id).position == place + 1
    assert Event.objects.get(id=event_id).seq == 1 + 2 * outbox.JUMP
