"""Copies that are taken in at once: each once, in threads that count what they hold."""

from functools import partial

import pytest
from django.db import transaction

from core import objects
from delivery.models import ProviderEvent
from delivery.services import apply_event
from inbound.models import InboundJob
from inbound.receive import receive
from mailboxes.identity_services import delete_identity
from mailboxes.models import Contact, Event, Message, Thread
from outbound.deliver import deliver
from tests.support.loops import Box, copy_of, letter, new_box, two_boxes
from tests.support.racers import Action, Racers

pytestmark = pytest.mark.django_db(transaction=True)

ROUNDS = 10


def with_a_file(box: Box, name: str) -> bytes:
    part = "--b\r\n\r\nHello\r\n--b\r\nContent-Type: a/b\r\n\r\nx\r\n--b--"
    kind = "Content-Type: multipart/mixed; boundary=b"
    return letter(box, f"Message-ID: <{name}@example.net>", kind, body=part)


def test_eight_workers_on_one_copy_take_it_in_once(racers: Racers) -> None:
    box = new_box()
    for n in range(ROUNDS):
        job = copy_of(with_a_file(box, str(n)), box)

        results = racers.at_once([partial(receive, job.id)] * 8)

        assert sorted(map(str, results)) == ["None"] * 7 + ["received"]
        message = Message.objects.get(public_id=job.message_id)
        assert objects.exists(message.raw_key or "")
        assert objects.get(message.attachments.get().object_key) == b"x"
    assert Message.objects.count() == ROUNDS
    assert Event.objects.filter(type="message.received").count() == ROUNDS


def test_eight_copies_of_the_same_octets_become_one_message(racers: Racers) -> None:
    box = new_box()
    for n in range(ROUNDS):
        raw = with_a_file(box, str(n))
        jobs = [copy_of(raw, box) for _ in range(8)]

        results = racers.at_once([partial(receive, job.id) for job in jobs])

        assert sorted(map(str, results)) == ["duplicate"] * 7 + ["received"]
    assert Message.objects.count() == ROUNDS


def test_mail_that_comes_into_one_thread_at_once_is_all_counted(
    racers: Racers,
) -> None:
    # Given a thread, and answers to its first message in every round
    box = new_box()
    receive(copy_of(letter(box, "Message-ID: <first@example.net>"), box).id)
    for n in range(ROUNDS):
        answers = [
            letter(box, "In-Reply-To: <first@example.net>", body=f"{n} {m}")
            for m in range(6)
        ]
        others = [letter(box, body=f"new {n} {m}") for m in range(2)]
        jobs = [copy_of(raw, box) for raw in (*answers, *others)]

        results = racers.at_once([partial(receive, job.id) for job in jobs])

        assert results == ["received"] * 8

    # Then each thread says what its messages say, and nothing is numbered twice
    for thread in Thread.objects.all():
        held = thread.messages.count()
        assert (thread.message_count, thread.unread_count) == (held, held)
    assert max(Thread.objects.values_list("message_count", flat=True)) == 6 * ROUNDS + 1
    assert Contact.objects.get().inbound_count == 8 * ROUNDS + 1
    numbers = list(Event.objects.order_by("seq").values_list("seq", flat=True))
    assert numbers == list(range(1, 8 * ROUNDS + 2))


def test_a_mailbox_that_is_deleted_meanwhile_gets_mail_before_or_not_at_all(
    racers: Racers,
) -> None:
    tenant = new_box().identity.tenant
    for n in range(ROUNDS):
        box = new_box(tenant)
        jobs = [copy_of(with_a_file(box, f"{n}-{m}"), box) for m in range(4)]

        def delete(box: Box = box) -> None:
            with transaction.atomic():
                delete_identity(box.identity.id)

        results = racers.at_once([*(partial(receive, job.id) for job in jobs), delete])

        assert results[-1] is None
        for job, result in zip(jobs, results, strict=False):
            is_in = Message.objects.filter(public_id=job.message_id).exists()
            assert result in ("received", "dropped")
            assert is_in is (result == "received")
            folder = f"t/{tenant.id}/i/{box.identity.id}/m/{job.message_id}"
            assert objects.exists(f"{folder}/raw.eml") is is_in
        types = Event.objects.filter(identity=box.identity).order_by("seq")
        told = list(types.values_list("type", flat=True))
        assert "message.received" not in told[told.index("identity.updated") :]


def test_two_mailboxes_that_write_to_each_other_do_not_wait_in_a_circle(
    racers: Racers,
) -> None:
    ada, bob = two_boxes()
    sent: list[Message] = []
    for n in range(ROUNDS):
        sent = [ada.send(bob, key=f"a{n}"), bob.send(ada, key=f"b{n}")]
        jobs = InboundJob.objects.filter(state="pending")
        events = ProviderEvent.objects.filter(state="pending")
        actions: list[Action] = [
            *(partial(deliver, message.public_id) for message in sent),
            *(partial(receive, job.id) for job in jobs),
            *(partial(apply_event, event.id) for event in events),
        ]

        results = racers.at_once(actions[:8])

        assert not [one for one in results if isinstance(one, Exception)]
    assert len(ada.received()) == ROUNDS - 1
    assert len(bob.received()) == ROUNDS - 1
