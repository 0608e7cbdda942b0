"""The list of sends in doubt: narrowed, searched, and never an error."""

import re
from datetime import timedelta

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from core.canonical import key_hash
from core.clock import database_now
from delivery.models import Attempt, Delivery, ProviderEvent
from delivery.statuses import DeliveryKind
from mailboxes.models import Identity, Message
from outbound.models import LedgerEntry
from staff.models import Settlement
from tests.api.test_settling import QUEUE, words
from tests.factories import AddressFactory
from tests.support.doubts import A, B, doubts, stored, told
from tests.support.staff import browser

pytestmark = pytest.mark.django_db


def shown(client: Client, **asked: str) -> set[str]:
    """Return the ids of the sends that the list names."""
    page = client.get(QUEUE, asked)
    assert page.status_code == 200
    return set(re.findall(r'name="message" value="(msg_\w+)"', page.content.decode()))


def test_the_list_is_narrowed_and_searched_by_whole_values(identity: Identity) -> None:
    # Given sends that differ in each thing that one may ask for
    own, lost, heard = doubts(identity, 3, recipients=[A, B])
    other = doubts(AddressFactory.create().identity, 1, recipients=["c@example.org"])[0]
    Attempt.objects.filter(message=lost).update(phase="worker_lost", provider="ses")
    Delivery.objects.filter(message=heard, address=A).update(status="delivered")
    Delivery.objects.filter(message=own).update(
        updated_at=database_now() - timedelta(hours=2)
    )
    LedgerEntry.objects.create(
        identity_id=identity.id,
        key_hash=key_hash("order 1"),
        tenant_id=identity.tenant_id,
        fingerprint="0" * 64,
        operation="send",
        message_id=lost.public_id,
        response={},
    )
    orphan = told(other, DeliveryKind.DELIVERED, recipient="c@example.org")
    ProviderEvent.objects.filter(id__in=stored(orphan)).update(
        state="orphaned", due_at=None
    )
    client = browser("support")

    def found(**asked: str) -> set[int]:
        ids = shown(client, **asked)
        rows = Message.objects.filter(public_id__in=ids)
        return set(rows.values_list("key", flat=True))

    # Then each value finds those that have it, and no others
    mine = {own.key, lost.key, heard.key}
    hour_ago = (database_now() - timedelta(hours=1)).strftime("%Y-%m-%dT%H:%M")
    assert found() == mine | {other.key}
    assert found(tenant=identity.tenant.slug) == mine
    assert found(domain=(own.from_address or "").partition("@")[2]) == mine
    assert found(transport="ses") == found(phase="worker_lost") == {lost.key}
    assert found(evidence="orphan") == {other.key}
    assert found(evidence="others") == {heard.key}
    assert found(evidence="none") == {own.key, lost.key}
    assert found(until=hour_ago) == found(until=f"{hour_ago}:00") == {own.key}
    assert found(since=hour_ago) == {lost.key, heard.key, other.key}
    assert found(q=own.public_id.lower()) == {own.key}
    assert found(q=" c@example.org ") == {other.key}
    assert found(q="order 1") == {lost.key}
    assert found(q="Order 1") == set()
    page = words(client.get(QUEUE))
    assert "1 orphan nearly matches" in page
    assert "1 of 2 recipients heard of" in page


@pytest.mark.parametrize(
    "asked",
    [
        {"since": "yesterday"},
        {"since": "2026-11-02T10:00", "until": "2026-11-02T09:00"},
        {"evidence": "magic"},
        {"q": "x" * 513},
        {"tenant": "a\x00b"},
        {"since": "0001-01-01T00:00+14:00"},
    ],
)
def test_what_cannot_be_asked_is_said_and_finds_nothing(
    identity: Identity, asked: dict[str, str]
) -> None:
    doubts(identity, 1)
    client = browser("support")

    page = client.get(QUEUE, asked)
    forced = client.post(QUEUE, {"which": "all", **asked})

    assert page.status_code == 200
    assert 'role="alert"' in page.content.decode()
    assert 'name="message"' not in page.content.decode()
    assert forced.status_code == 302
    assert not Settlement.objects.exists()


@pytest.mark.parametrize("page", ["0", "-1", "x", "99999", "9" * 400, "²"])
def test_a_page_that_is_not_there_is_no_error(identity: Identity, page: str) -> None:
    doubts(identity, 1)
    client = browser("viewer")

    answers = [client.get(where, {"page": page}) for where in (QUEUE, f"{QUEUE}past/")]

    assert [answer.status_code for answer in answers] == [200, 200]


def test_an_empty_list_says_that_nothing_is_in_doubt() -> None:
    assert "No send is in doubt" in words(browser("viewer").get(QUEUE))


def test_hostile_text_is_shown_and_does_nothing(identity: Identity) -> None:
    message = doubts(identity, 1)[0]
    Message.objects.filter(key=message.key).update(
        subject="<script>alert(1)</script>" + "ש" * 970
    )

    page = browser("support").get(QUEUE).content.decode()

    assert "<script>alert" not in page
    assert "&lt;script&gt;alert(1)" in page


def test_a_page_costs_the_same_few_statements_however_many_there_are(
    identity: Identity,
) -> None:
    client = browser("support")
    counts = []
    for number in (1, 60):
        doubts(identity, number)
        client.get(QUEUE)
        with CaptureQueriesContext(connection) as captured:
            assert len(shown(client)) == min(50, number)
        counts.append(len(captured))

    assert counts[0] == counts[1] <= 10
