"""Provider events through running processes: a doubt settled late, and a kill."""

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from core.clock import database_now
from delivery import inbox
from delivery.events import DeliveryEvent
from delivery.models import Delivery, ProviderEvent
from delivery.statuses import DeliveryKind, EventSource
from mailboxes.key_services import create_key
from mailboxes.models import Event, Message
from tests.factories import AddressFactory
from tests.services.conftest import assert_units_add_up, events_of
from tests.support.api import booking
from tests.support.cloudflare import account_at, thread_of_cloudflare
from tests.support.cloudflare_server import CloudflareServer
from tests.support.doubts import doubts, stored, told, told_of
from tests.support.processes import Processes, until
from tests.support.times import SHORT

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def cloudflare() -> Iterator[CloudflareServer]:
    """An account that takes its first send and never says so."""
    with CloudflareServer("hang") as server:
        yield server


def test_a_call_without_an_answer_is_settled_by_an_event_and_made_once(
    crew: Processes, cloudflare: CloudflareServer
) -> None:
    """The page's sequence: a time-out, a repeat of the key, then the event."""
    # Given a send that Cloudflare took, and whose answer never came
    account: dict[str, Any] = account_at(cloudflare)
    web = crew.web(**account)
    crew.worker(**{**SHORT, **account, "PM_CLAIM_SECONDS": 3})
    thread = thread_of_cloudflare()
    identity = thread.identity
    thread.delete()  # the mailbox numbers its own
    secret = create_key(name="agent", tenant=identity.tenant).secret

    def send() -> httpx.Response:
        return httpx.post(
            f"{web.url}/v1/identities/{identity.id}/messages",
            headers={
                "Authorization": f"Bearer {secret}",
                "Idempotency-Key": "bk-2291-confirm",
            },
            json=booking(),
            timeout=20,
        )

    first = send()
    assert first.status_code == httpx.codes.ACCEPTED, first.text
    assert first.json()["status"] == "queued"
    message = Message.objects.get(public_id=first.json()["id"])
    in_doubt = Message.objects.filter(pk=message.pk, status="uncertain")
    until(in_doubt.exists, what="the doubt")
    assert in_doubt.get().reason == "transport_timeout"

    # When its client asks again, then nothing more is sent
    again = send()
    assert (again.status_code, again.json()["deduplicated"]) == (202, True)
    assert again.headers["Idempotent-Replayed"] == "true"
    assert again.json()["id"] == message.public_id

    # When the provider's event comes at last
    inbox.store([late_event(message)], due_at=[database_now()])
    until(
        Message.objects.filter(pk=message.pk, status="delivered").exists,
        what="the delivered event",
    )

    # Then it has settled the doubt, and one copy went out
    shown = httpx.get(
        f"{web.url}/v1/identities/{identity.id}/messages/{message.public_id}",
        headers={"Authorization": f"Bearer {secret}"},
        timeout=20,
    ).json()
    assert (shown["evidence"], shown["flags"]) == ("match", ["reconciled"])
    assert shown["provider_message_id"] == "cf-late"
    assert [one["status"] for one in shown["deliveries"]] == ["delivered"]
    assert events_of(message) == [
        "message.uncertain",
        "message.reconciled",
        "message.delivered",
    ]
    reconciled = Event.objects.get(type="message.reconciled").payload
    assert reconciled["data"] == {
        "message_id": message.public_id,
        "status": "delivered",
    }
    assert cloudflare.copies == {"jo@example.net": 1}
    assert len(cloudflare.sends) == 1
    assert_units_add_up(message)


def late_event(message: Message) -> DeliveryEvent:
    """Return what Cloudflare says: of the sender, the recipient and the subject."""
    return DeliveryEvent(
        source=EventSource.CLOUDFLARE,
        event_id="cf-event-1",
        provider_message_id="cf-late",
        sender=message.from_address or "",
        recipient="jo@example.net",
        kind=DeliveryKind.DELIVERED,
        occurred_at=database_now(),
        subject=message.subject,
    )


def test_a_worker_that_is_killed_between_events_loses_none_and_doubles_none(
    crew: Processes,
) -> None:
    # Given more events than a worker applies at once, and a worker killed among them
    number = 120
    messages = doubts(AddressFactory.create().identity, number)
    stored(*(told(one, DeliveryKind.DELIVERED) for one in messages))
    applied = ProviderEvent.objects.filter(state="applied")
    doomed = crew.worker(threads=2, **SHORT)
    until(lambda: applied.count() >= 5, what="the first events")
    doomed.kill()
    done = applied.count()
    assert 5 <= done < number
    assert Delivery.objects.filter(status="delivered").count() == done
    pending = ProviderEvent.objects.filter(state="pending")
    assert pending.count() == number - done

    # When another worker starts
    crew.worker(threads=4, **SHORT)

    # Then every event is applied, once
    until(lambda: applied.count() == number, seconds=60, what="all events")
    assert set(Delivery.objects.values_list("status", flat=True)) == {"delivered"}
    assert told_of("message.delivered") == told_of("message.reconciled") == number
    assert_units_add_up(messages[0])
