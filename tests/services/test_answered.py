"""What an answer depends on, read at once: the message, its thread, nothing hidden."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from core.clock import database_now
from core.ids import new_id
from mailboxes.models import Contact, Message, Thread
from mailboxes.recipients import Party, reply_target
from mailboxes.statuses import Direction, MessageKind, MessageStatus
from mailboxes.threading import ThreadIds, answer_headers, parent_of
from outbound.answered import answered_facts, thread_facts
from outbound.plan import AnsweredFacts, ThreadFacts
from tests.factories import IdentityFactory, MessageFactory, ThreadFactory

pytestmark = pytest.mark.django_db


@pytest.fixture
def thread(db: None) -> Thread:
    return ThreadFactory.create(
        subject="Your booking",
        reply_from_address="ada@acme.example",
        participants=[{"address": "jo@x.example", "name": "Jo"}],
    )


def received(thread: Thread, **more: Any) -> Message:
    given: dict[str, Any] = {
        "direction": Direction.INBOUND,
        "status": MessageStatus.RECEIVED,
        "kind": MessageKind.NORMAL,
        "operation": None,
        "raw_key": None,
        "from_address": "jo@x.example",
        "from_name": "Jo",
        "to_addrs": [{"address": "ada@acme.example", "name": None}],
        "rfc_message_id": f"{new_id('msg')}@x.example",
    }
    return MessageFactory.create(thread=thread, **{**given, **more})


def sent(thread: Thread, **more: Any) -> Message:
    given: dict[str, Any] = {
        "status": MessageStatus.DELIVERED,
        "from_address": "ada@acme.example",
        "rfc_message_id": f"{new_id('msg')}@acme.example",
    }
    return MessageFactory.create(thread=thread, **{**given, **more})


def facts_of(message: Message, **more: Any) -> tuple[AnsweredFacts, ThreadFacts]:
    found = answered_facts(message.identity_id, message.public_id, **more)
    assert found is not None
    return found


def test_a_message_and_its_thread_are_one_statement(
    thread: Thread, django_assert_num_queries: Callable[[int], Any]
) -> None:
    message = received(
        thread,
        subject="Re: Your booking",
        cc_addrs=[{"address": "lee@y.example", "name": "Lee"}],
        reply_to=[{"address": "desk@x.example", "name": None}],
        in_reply_to="a@acme.example",
        ref_ids=["a@acme.example"],
        automated={"hop": 3},
        known_sender=True,
    )

    with django_assert_num_queries(1):
        answered, found = facts_of(message)

    assert found.head[:2] == (message.key, message.key)
    assert answered.key == message.key
    assert answered.kind == MessageKind.NORMAL
    assert answered.subject == "Re: Your booking"
    assert answered.hop == found.hop == 3
    assert answered.ids == ThreadIds(
        message.rfc_message_id, "a@acme.example", ("a@acme.example",)
    )
    assert answered.message.sender == Party("jo@x.example", "Jo")
    assert answered.message.cc == (Party("lee@y.example", "Lee"),)
    assert reply_target(answered.message) == Party("desk@x.example")
    assert (found.id, found.seq, found.subject) == (
        thread.public_id,
        thread.seq,
        "Your booking",
    )
    assert found.participants == (Party("jo@x.example", "Jo"),)
    assert found.sender.reply_from_address == "ada@acme.example"
    assert found.sender.last_at == thread.last_at
    assert not found.sender.fallback_pinned


def test_the_body_is_read_for_a_forward_only(thread: Thread) -> None:
    sent_at = database_now() - timedelta(days=3)
    message = received(thread, text="Hi", html_sanitized="<p>Hi</p>", sent_at=sent_at)

    plain, _ = facts_of(message)
    whole, _ = facts_of(message, with_body=True)

    assert (plain.original.text, plain.original.html) == ("", None)
    assert (whole.original.text, whole.original.html) == ("Hi", "<p>Hi</p>")
    assert whole.original.sent_at == sent_at
    assert whole.original.to == (Party("ada@acme.example"),)


@pytest.mark.parametrize(
    ("status", "sees", "is_there"),
    [
        (MessageStatus.RECEIVED, False, True),
        (MessageStatus.QUARANTINED, False, False),
        (MessageStatus.QUARANTINED, True, True),
        (MessageStatus.HIDDEN, True, False),
        (MessageStatus.THROTTLED, True, False),
    ],
)
def test_what_a_key_may_not_see_is_not_there(
    thread: Thread, status: MessageStatus, sees: bool, is_there: bool
) -> None:
    message = received(thread, status=status)

    found = answered_facts(thread.identity_id, message.public_id, sees_quarantined=sees)

    assert (found is not None) == is_there


def test_another_mailboxs_message_or_thread_is_not_there(thread: Thread) -> None:
    other = IdentityFactory.create(tenant=thread.tenant)
    message = received(thread)

    assert answered_facts(other.id, message.public_id) is None
    assert answered_facts(thread.identity_id, new_id("msg")) is None
    assert thread_facts(other.id, thread.public_id) is None
    assert thread_facts(thread.identity_id, new_id("thr")) is None


def test_a_send_into_a_thread_names_its_newest_message(thread: Thread) -> None:
    received(thread, rfc_message_id="a@x.example")
    sent(thread, rfc_message_id="b@acme.example", ref_ids=["a@x.example"])
    sent(thread, rfc_message_id=None)
    sent(thread, rfc_message_id="failed@acme.example", status=MessageStatus.FAILED)
    received(thread, rfc_message_id="spam@x.example", status=MessageStatus.HIDDEN)

    found = thread_facts(thread.identity_id, thread.public_id)

    assert found is not None
    headers = answer_headers(parent_of(None, found.earlier))
    assert headers.in_reply_to == "b@acme.example"
    assert headers.references == ("a@x.example", "b@acme.example")


def test_an_answer_to_an_unnamed_message_names_one_before_it(thread: Thread) -> None:
    received(thread, rfc_message_id="before@x.example")
    unnamed = received(
        thread, rfc_message_id="made@synthetic.invalid", message_id_synthetic=True
    )
    received(thread, rfc_message_id="after@x.example")

    answered, found = facts_of(unnamed)

    parent = parent_of(answered.ids, found.earlier)
    assert parent is not None
    assert parent.rfc_message_id == "before@x.example"


def test_addresses_that_the_thread_was_answered_from_are_remembered(
    thread: Thread,
) -> None:
    sent(thread, from_address="old@acme.example")
    sent(thread, from_address="old@acme.example")
    received(thread)

    found = thread_facts(thread.identity_id, thread.public_id)

    assert found is not None
    assert found.sender.used == {"old@acme.example"}


@pytest.mark.parametrize(("written", "counts"), [(0, False), (1, True)])
def test_having_written_to_the_reply_to_address_makes_it_count(
    thread: Thread, written: int, counts: bool
) -> None:
    now = database_now()
    Contact.objects.create(
        identity=thread.identity,
        tenant=thread.tenant,
        address="desk@elsewhere.example",
        domain="elsewhere.example",
        first_seen_at=now,
        last_seen_at=now,
        inbound_count=3,
        outbound_count=written,
    )
    message = received(
        thread, reply_to=[{"address": "Desk@Elsewhere.example", "name": None}]
    )

    answered, _ = facts_of(message)

    assert answered.message.has_written_to_reply_to == counts


@pytest.mark.parametrize(
    ("spelled", "counts"),
    [
        ("Desk@BÜCHER.example", True),
        ("desk@xn--bcher-kva.example", True),
        ("desk@bücher.example.", True),
        ("desks@bücher.example", False),
        ("desk@bûcher.example", False),
        ("desk@sub.bücher.example", False),
    ],
)
def test_a_reply_to_address_written_to_counts_however_its_domain_is_spelled(
    thread: Thread, spelled: str, counts: bool
) -> None:
    now = database_now()
    Contact.objects.create(
        identity=thread.identity,
        tenant=thread.tenant,
        address="desk@xn--bcher-kva.example",
        domain="xn--bcher-kva.example",
        first_seen_at=now,
        last_seen_at=now,
        outbound_count=1,
    )
    message = received(thread, reply_to=[{"address": spelled, "name": None}])

    answered, _ = facts_of(message)

    assert answered.message.has_written_to_reply_to == counts
    wanted = Party(spelled) if counts else Party("jo@x.example", "Jo")
    assert reply_target(answered.message) == wanted


def test_an_answer_to_our_own_message_goes_on_from_the_threads_hop(
    thread: Thread,
) -> None:
    received(thread, automated={"hop": 5})
    ours = sent(thread)
    received(thread, automated={"hop": 7}, status=MessageStatus.HIDDEN)

    answered, found = facts_of(ours)

    assert answered.hop == found.hop == 5


def test_automatic_replies_are_counted_as_they_are_under_the_lock(
    thread: Thread,
) -> None:
    sent(thread, kind=MessageKind.AUTO_REPLY)
    sent(thread)
    for status in (MessageStatus.DELIVERED, MessageStatus.QUEUED, MessageStatus.FAILED):
        sent(thread, kind=MessageKind.AUTO_REPLY, status=status)
    message = received(thread)

    _, found = facts_of(message)

    assert found.exchanges == 2
