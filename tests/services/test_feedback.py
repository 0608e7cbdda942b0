"""A provider that says nothing of a domain's mail is told of, until it speaks."""

from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from core import clock
from core.clock import database_now
from core.ids import new_id
from delivery import feedback, inbox
from delivery.events import DeliveryEvent
from delivery.statuses import DeliveryKind, EventSource
from domains.models import Domain
from domains.statuses import DomainState, Transport
from mailboxes.models import Address, Alert, Message, Thread
from mailboxes.statuses import Direction, MessageKind, MessageStatus, Provider
from pylota.watch.conditions import CONDITIONS
from pylota.watch.evaluate import look, signs
from tests.factories import AddressFactory, ThreadFactory

pytestmark = pytest.mark.django_db


@pytest.fixture
def ses(address: Address) -> Address:
    """An address on a domain that sends by SES."""
    return moved(address, Transport.SES)


def moved(address: Address, transport: Transport) -> Address:
    address.domain.transport = transport
    address.domain.smtp_sealed = None
    address.domain.save()
    return address


def sends(
    address: Address,
    number: int,
    *,
    hours_ago: float = 1,
    provider: Provider | None = Provider.SES,
    direction: Direction = Direction.OUTBOUND,
) -> None:
    """Let so many messages have left from an address."""
    thread: Thread = ThreadFactory.create(identity=address.identity)
    inbound = direction == Direction.INBOUND
    Message.objects.bulk_create(
        Message(
            public_id=new_id("msg"),
            tenant=address.tenant,
            identity=address.identity,
            thread=thread,
            direction=direction,
            status=MessageStatus.RECEIVED if inbound else MessageStatus.SUBMITTED,
            kind=MessageKind.NORMAL if inbound else MessageKind.TRANSACTIONAL,
            provider=provider,
            from_address=address.address,
            received_at=database_now() - timedelta(hours=hours_ago),
            raw_sha256=f"{n:064x}",
        )
        for n in range(number)
    )


def hears(
    address: Address,
    kind: DeliveryKind = DeliveryKind.DEFERRED,
    *,
    source: EventSource = EventSource.SES,
    event_id: str = "ses:1",
) -> None:
    """Let an event of the domain's mail come in; what becomes of it does not matter."""
    told = DeliveryEvent(
        source=source,
        event_id=event_id,
        provider_message_id="unknown",
        sender=address.address,
        recipient="jo@example.net",
        kind=kind,
        occurred_at=database_now(),
    )
    inbox.store([told], due_at=[database_now()])


(FEEDBACK,) = (one for one in CONDITIONS if one.name == feedback.ALERT)


def names() -> list[str]:
    return [sign.details["domain"] for sign in signs(FEEDBACK, now=database_now())]


def check_feedback() -> int:
    """Look when it is time again; return how many domains are silent."""
    clock.offset += FEEDBACK.every
    assert look(FEEDBACK)
    return len(names())


def open_alerts() -> list[Alert]:
    return list(Alert.objects.filter(name="feedback_silent", resolved_at=None))


def test_the_two_hundredth_message_of_a_day_without_any_event_is_told_of(
    ses: Address,
) -> None:
    sends(ses, 199)
    assert check_feedback() == 0
    assert open_alerts() == []

    sends(ses, 1, hours_ago=23)
    assert [check_feedback() for _ in range(3)] == [1, 1, 1]

    (alert,) = open_alerts()
    assert (alert.subject, alert.severity) == (ses.domain_id, "ticket")
    assert alert.details == {"domain": ses.domain.name}


@pytest.fixture
def _three_will_do(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let three messages be enough to expect an event."""
    monkeypatch.setattr(feedback, "SENT", 3)


@pytest.mark.usefixtures("_three_will_do")
def test_one_event_of_whatever_kind_ends_it_and_keeps_it_away(ses: Address) -> None:
    sends(ses, 3)
    check_feedback()

    hears(ses)
    assert [check_feedback() for _ in range(2)] == [0, 0]

    assert open_alerts() == []
    sends(ses, 5)
    assert check_feedback() == 0
    assert Alert.objects.count() == 1


@pytest.mark.usefixtures("_three_will_do")
def test_it_stays_open_until_something_is_heard_whatever_is_sent_since(
    ses: Address,
) -> None:
    sends(ses, 3)
    check_feedback()

    clock.offset += timedelta(days=3)

    assert [check_feedback() for _ in range(3)] == [1, 1, 1]
    assert len(open_alerts()) == 1


@pytest.mark.parametrize("transport", [Transport.SES, Transport.CLOUDFLARE])
@pytest.mark.usefixtures("_three_will_do")
def test_both_providers_are_listened_to(address: Address, transport: Transport) -> None:
    moved(address, transport)
    sends(address, 3, provider=Provider(transport))

    assert names() == [address.domain.name]


@pytest.mark.usefixtures("_three_will_do")
def test_a_relay_says_nothing_by_design(address: Address) -> None:
    sends(address, 3, provider=Provider.SMTP)
    assert names() == []

    moved(address, Transport.SES)  # since; what left by the relay does not count
    assert names() == []


@pytest.mark.usefixtures("_three_will_do")
def test_only_what_left_in_the_last_day_counts(ses: Address) -> None:
    sends(ses, 3, hours_ago=24.1)
    sends(ses, 3, provider=None)  # still queued, or refused
    sends(ses, 3, provider=Provider.SIMULATOR)
    sends(ses, 3, provider=None, direction=Direction.INBOUND)

    assert names() == []


@pytest.mark.usefixtures("_three_will_do")
def test_messages_of_all_identities_of_a_domain_add_up(ses: Address) -> None:
    sends(ses, 2)
    sends(AddressFactory.create(domain=ses.domain), 1)

    assert names() == [ses.domain.name]


@pytest.mark.usefixtures("_three_will_do")
def test_another_domains_event_and_our_own_are_no_sign_of_life(ses: Address) -> None:
    """What we made of an answer of Cloudflare's does not show that its events come."""
    sends(ses, 3)
    hears(moved(AddressFactory.create(), Transport.SES))
    hears(ses, source=EventSource.SIMULATOR, event_id="sim:1")
    hears(ses, source=EventSource.CLOUDFLARE, event_id="cf:msg_1:jo@example.net:sync")

    assert names() == [ses.domain.name]


@pytest.mark.parametrize(
    "change",
    [{"state": DomainState.REMOVED}, {"transport": Transport.SMTP}],
    ids=["removed", "moved to a relay"],
)
@pytest.mark.usefixtures("_three_will_do")
def test_a_domain_that_no_provider_serves_any_more_is_not_waited_for(
    ses: Address, change: dict[str, str]
) -> None:
    sends(ses, 3)
    check_feedback()
    assert len(open_alerts()) == 1

    Domain.objects.filter(id=ses.domain_id).update(**change)

    assert [check_feedback() for _ in range(2)] == [0, 0]
    assert open_alerts() == []


@pytest.mark.usefixtures("_three_will_do")
def test_a_run_takes_as_many_statements_for_many_domains_as_for_one(
    ses: Address,
) -> None:
    addresses = [
        ses,
        *(moved(AddressFactory.create(), Transport.SES) for _ in range(3)),
    ]
    for address in addresses:
        sends(address, 3)

    clock.offset += FEEDBACK.every
    with CaptureQueriesContext(connection) as fired:
        assert look(FEEDBACK)
    assert len(open_alerts()) == 4
    for address in addresses:
        hears(address, event_id=f"ses:{address.id}")
    check_feedback()
    clock.offset += FEEDBACK.every
    with CaptureQueriesContext(connection) as ended:
        assert look(FEEDBACK)

    assert open_alerts() == []
    # the clock, the turn, the question, what is raised or over; and a savepoint here
    assert (len(fired), len(ended)) == (6, 6)


@pytest.mark.usefixtures("_three_will_do")
def test_the_history_of_events_is_asked_through_its_index(ses: Address) -> None:
    # Given events of three hundred other domains, which is what tells the indexes apart
    for n in range(300):
        hears(Address(address=f"desk@other{n}.example"), event_id=f"ses:{n}")
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE provider_events")
        for way in ("seqscan", "hashjoin", "mergejoin"):  # of so few, all can be read
            cursor.execute(f"SET LOCAL enable_{way} = off")
        cursor.execute(
            "EXPLAIN " + feedback.SILENT,
            {**feedback.bounds(database_now()), "batch": 100},
        )
        plan = "\n".join(line for (line,) in cursor.fetchall())

    assert "provider_events_by_domain" in plan
