"""Mailboxes of test tenants that write to each other through the API."""

from typing import Any

import pytest

from core import objects
from delivery.models import Attempt
from domains.models import Domain
from domains.statuses import ReplyToken
from mailboxes.models import Address, Contact, Event, Identity, Message, Tenant
from mailboxes.statuses import Direction, TenantMode
from tests.support.api import ApiClient, code_of, paths_of
from tests.support.loops import Box, hear, leave, new_box, take_in, two_boxes, work

pytestmark = pytest.mark.django_db


def received_event(box: Box) -> dict[str, Any]:
    found = Event.objects.get(identity=box.identity, type="message.received")
    return dict(found.payload["data"])


def deliveries(message: Message) -> dict[str, str]:
    return dict(message.deliveries.values_list("address", "status"))


def test_a_message_to_a_colleague_is_in_the_other_mailbox() -> None:
    ada, bob = two_boxes()

    sent = ada.send(bob, cc=["delivered@simulator.invalid"], labels=["booking"])
    work()

    got = bob.the_received()
    sent.refresh_from_db()
    assert (got.status, got.kind, got.verdict) == ("received", "normal", "pass")
    assert (got.from_address, got.from_name) == (ada.address, "Ada")
    assert (got.delivered_to, got.is_bcc, got.is_primary_recipient) == (
        bob.address,
        False,
        True,
    )
    assert (got.subject, got.text) == ("Your booking", "See you on Friday.")
    assert got.rfc_message_id == sent.rfc_message_id
    assert got.flags == ["loopback"]
    assert got.auth == {"source": "loopback"}
    assert got.automated == {"hop": 1}
    assert got.sent_at is not None
    assert got.known_sender is True  # a colleague, on a domain of the tenant
    assert (got.thread.message_count, got.thread.unread_count) == (1, 1)
    assert got.thread.last_inbound_at == got.received_at
    assert got.thread.reply_from_address == bob.address
    assert [party["address"] for party in got.thread.participants] == [
        ada.address,
        "delivered@simulator.invalid",
    ]
    contact = Contact.objects.get(identity=bob.identity, address=ada.address)
    assert (contact.inbound_count, contact.outbound_count) == (1, 0)


def test_the_copy_is_the_composed_mail_byte_by_byte() -> None:
    ada, bob = two_boxes()

    sent = ada.send(bob)
    work()

    got = bob.the_received()
    folder = f"t/{bob.identity.tenant_id}/i/{bob.identity.id}/m/{got.public_id}"
    assert got.raw_key == f"{folder}/raw.eml"
    assert objects.get(got.raw_key) == objects.get(sent.raw_key or "")


def test_the_sender_is_told_that_it_was_delivered() -> None:
    ada, bob = two_boxes()

    sent = ada.send(bob)
    work()

    sent.refresh_from_db()
    ulid = sent.public_id.removeprefix("msg_").lower()
    assert (sent.status, sent.provider) == ("delivered", "loopback")
    assert sent.provider_message_id == f"test-{ulid}"
    assert sent.flags == ["loopback"]
    told = Event.objects.filter(identity=ada.identity).order_by("seq")
    assert [event.type for event in told] == ["message.sent", "message.delivered"]
    assert told[0].payload["data"]["provider"] == "loopback"
    assert told[0].payload["data"]["message"]["flags"] == ["loopback"]


def test_the_receiver_is_told_what_came() -> None:
    ada, bob = two_boxes()

    ada.send(bob, html="<p>See <b>you</b></p>", attachments=[a_file()])
    work()

    got, data = bob.the_received(), received_event(bob)
    assert data["message"]["id"] == got.public_id
    assert data["message"]["direction"] == "inbound"
    assert data["message"]["flags"] == ["loopback"]
    assert data["thread_id"] == got.thread.public_id
    assert data["trust"] == {"known_sender": True, "automated": False, "flags": []}
    assert data["extracted_text"] == "See you on Friday."
    assert data["extracted_text_truncated"] is False
    (file,) = data["attachments"]
    assert file == {
        "id": got.attachments.get().id,
        "filename": "plan.txt",
        "content_type": "text/plain",
        "size": 5,
        "disposition": "attachment",
    }
    assert objects.get(got.attachments.get().object_key) == b"hello"


def test_a_file_that_could_do_harm_is_shown_and_not_handed_out() -> None:
    ada, bob = two_boxes()
    harmful = {**a_file(), "filename": "plan.exe"}

    ada.send(bob, attachments=[harmful, a_file()])
    work()

    got = bob.the_received()
    first, second = got.attachments.order_by("part_index")
    assert (first.risk, second.risk) == ("executable", None)
    shown = bob.api.get(f"{bob.api.path}/{got.public_id}").json()
    assert len(shown["attachments"]) == 2
    folder = f"{bob.api.path}/{got.public_id}/attachments"
    assert bob.api.get(f"{folder}/{first.id}").status_code == 404
    assert bob.api.get(f"{folder}/{second.id}").content == b"hello"


def test_html_that_comes_in_is_stored_safe() -> None:
    ada, bob = two_boxes()
    page = (
        '<p onclick="x()">Hi</p><script>x()</script>'
        '<span style="display:none">secret</span>'
    )

    ada.send(bob, text="Hi", html=page)
    work()

    got = bob.the_received()
    assert got.html_sanitized is not None
    assert "<p>Hi</p>" in got.html_sanitized
    assert "x()" not in got.html_sanitized
    assert "secret" not in got.html_sanitized
    assert "hidden_text" in got.flags
    assert received_event(bob)["trust"]["flags"] == ["hidden_text"]


@pytest.mark.parametrize("reply_token", list(ReplyToken))
def test_a_reply_joins_the_thread_that_it_answers(reply_token: ReplyToken) -> None:
    ada, bob = two_boxes(reply_token)
    sent = ada.send(bob)
    work()

    answer = bob.reply(bob.the_received())
    work()

    back = ada.the_received()
    (target,) = answer.to_addrs
    assert ("+t" in target["address"]) is (reply_token == ReplyToken.SUBADDRESS)
    assert back.thread == sent.thread
    assert back.delivered_to == ada.address
    assert back.in_reply_to == sent.rfc_message_id
    assert back.ref_ids == [sent.rfc_message_id]
    assert "thread_join_unverified" not in back.flags
    assert (back.thread.message_count, back.thread.unread_count) == (2, 1)
    assert back.extracted_text == "Fine."
    answer.refresh_from_db()
    assert answer.status == "delivered"


def test_a_token_alone_joins_a_thread() -> None:
    # Given an answer to a Reply-To whose writer names no message
    ada, bob = two_boxes(ReplyToken.SUBADDRESS)
    sent = ada.send(bob)
    work()
    (reply_to,) = bob.the_received().reply_to

    bob.send(reply_to["address"], subject="Something else")
    work()

    back = ada.the_received()
    assert back.in_reply_to is None
    assert back.thread == sent.thread
    assert back.delivered_to == ada.address
    assert back.flags == ["loopback"]


def test_a_strangers_token_is_followed_and_shown() -> None:
    ada, bob = two_boxes(ReplyToken.SUBADDRESS)
    carl = new_box(ada.identity.tenant, name="Carl")
    sent = ada.send(bob)
    work()
    (reply_to,) = bob.the_received().reply_to

    carl.send(reply_to["address"])
    work()

    back = ada.the_received()
    assert back.thread == sent.thread
    assert "thread_join_unverified" in back.flags
    assert received_event(ada)["trust"]["flags"] == ["thread_join_unverified"]


def test_a_forged_token_joins_nothing_and_is_delivered() -> None:
    ada, bob = two_boxes(ReplyToken.SUBADDRESS)
    sent = ada.send(bob)
    work()
    local, _, domain = ada.address.partition("@")

    bob.send(f"{local}+t01.00000000@{domain}")
    work()

    back = ada.the_received()
    assert back.thread != sent.thread
    assert "thread_join_unverified" in back.flags


def test_a_plain_tag_is_delivered_to_its_address() -> None:
    ada, bob = two_boxes()
    local, _, domain = bob.address.partition("@")

    ada.send(f"{local}+invoices@{domain}")
    work()

    got = bob.the_received()
    assert (got.delivered_to, got.is_bcc) == (bob.address, False)
    assert got.flags == ["loopback"]


def test_bcc_gets_a_copy_and_nobody_is_told() -> None:
    ada, bob = two_boxes()
    carl = new_box(ada.identity.tenant, name="Carl")

    ada.send(bob, bcc=[carl.address])
    work()

    got = carl.the_received()
    assert got.is_bcc is True
    assert got.is_primary_recipient is False
    assert "bcc" in got.flags
    assert got.thread.reply_from_address is None
    assert carl.address not in str(bob.the_received().to_addrs)
    assert b"carl" not in objects.get(bob.the_received().raw_key or "").lower()


def test_mail_to_another_tenant_has_no_verdict() -> None:
    ada, other = new_box(name="Ada"), new_box(name="Zoe")

    ada.send(other)
    work()

    got = other.the_received()
    assert got.tenant_id == other.identity.tenant_id
    assert (got.verdict, got.known_sender) == ("none", False)


def test_a_live_tenants_mailbox_can_be_written_to() -> None:
    ada, live = new_box(), new_box(mode=TenantMode.LIVE)

    ada.send(live)
    work()

    assert live.the_received().verdict == "none"


def test_who_was_answered_before_is_known() -> None:
    ada, other = new_box(name="Ada"), new_box(name="Zoe")
    ada.send(other)
    work()
    other.reply(other.the_received())
    work()

    ada.send(other, key="key-2")
    work()

    first, second = other.received()
    assert (first.known_sender, second.known_sender) == (False, True)


@pytest.mark.parametrize("status", ["pending", "retired"])
def test_an_address_that_takes_no_mail_is_refused(status: str) -> None:
    ada, bob = two_boxes()
    Address.objects.filter(address=bob.address).update(status=status)

    response = ada.api.send({"to": [bob.address], "subject": "Hi", "text": "Hi"})

    assert (response.status_code, code_of(response)) == (403, "test_mode_recipient")
    assert paths_of(response) == ["to"]
    assert not Message.objects.exists()


def test_a_retiring_address_is_written_to() -> None:
    ada, bob = two_boxes()
    Address.objects.filter(address=bob.address).update(status="retiring")

    ada.send(bob)
    work()

    assert bob.the_received().thread.reply_from_address == bob.address


def test_one_outside_address_refuses_the_whole_message() -> None:
    ada, bob = two_boxes()
    body = {
        "subject": "Hi",
        "text": "Hi",
        "to": [bob.address],
        "cc": ["jo@example.net"],
    }

    response = ada.api.send(body)

    assert (response.status_code, code_of(response)) == (403, "test_mode_recipient")
    assert paths_of(response) == ["cc"]
    assert not Message.objects.exists()


@pytest.mark.parametrize(
    ("simulated", "status", "delivery", "copies"),
    [
        ("delivered", "delivered", "delivered", 1),
        ("bounce", "bounced", "delivered", 1),
        ("deferred", "deferred", "delivered", 1),
        ("reject", "rejected", "rejected", 0),
        ("timeout", "uncertain", "uncertain", 0),
    ],
)
def test_simulator_and_mailbox_share_one_call(
    simulated: str, status: str, delivery: str, copies: int
) -> None:
    ada, bob = two_boxes()

    sent = ada.send(bob, cc=[f"{simulated}@simulator.invalid"])
    work()

    sent.refresh_from_db()
    assert sent.status == status
    assert deliveries(sent)[bob.address] == delivery
    assert len(bob.received()) == copies
    attempt = Attempt.objects.get(message=sent)
    assert attempt.provider == "simulator"
    assert ("loopback" in sent.flags) is bool(copies)


def test_any_reject_outdoes_any_timeout() -> None:
    ada, bob = two_boxes()
    both = ["timeout@simulator.invalid", "reject@simulator.invalid"]

    sent = ada.send(bob, cc=both)
    work()

    sent.refresh_from_db()
    assert sent.status == "rejected"
    assert bob.received() == []


def test_a_live_tenant_never_uses_loopback(api: ApiClient, identity: Identity) -> None:
    # Given a live tenant that writes to a mailbox of this deployment
    bob = new_box(mode=TenantMode.LIVE)
    Domain.objects.update(smtp_sealed=None)

    response = api.send({"to": [bob.address], "subject": "Hi", "text": "Hi"})

    assert code_of(response) == "transport_unavailable"
    assert bob.received() == []


def test_an_automatic_reply_answers_real_mail_once() -> None:
    ada, bob = two_boxes()
    Tenant.objects.update(policy={"auto_reply": {"max_automatic_exchanges": 1}})
    ada.send(bob)
    work()

    answer = bob.reply(bob.the_received(), kind="auto_reply")
    work()

    back = ada.the_received()
    assert back.kind == "automated"
    assert back.automated == {"hop": 2, "evidence": ["auto_submitted"]}
    assert received_event(ada)["trust"]["automated"] is True
    refused = ada.api.answer(
        "reply", back.public_id, {"text": "Away.", "kind": "auto_reply"}, key="key-2"
    )
    assert (refused.status_code, code_of(refused)) == (409, "auto_reply_not_allowed")
    again = bob.api.answer(
        "reply",
        bob.the_received().public_id,
        {"text": "Away.", "kind": "auto_reply"},
        key="key-2",
    )
    assert code_of(again) == "auto_reply_not_allowed"
    assert answer.kind == "auto_reply"


def test_two_machines_that_answer_each_other_are_stopped() -> None:
    ada, bob = two_boxes()
    ada.send(bob)
    work()
    writer, other = bob, ada

    # When each answers whatever comes, as ordinary mail
    for hop in range(2, 10):
        asked = writer.received()[-1]
        assert asked.automated is not None
        assert asked.automated["hop"] == hop - 1
        writer.reply(asked, key=f"key-{hop}")
        work()
        writer, other = other, writer

    # Then the tenth is refused
    last = writer.received()[-1]
    refused = writer.api.answer("reply", last.public_id, {"text": "?"}, key="key-10")
    assert (refused.status_code, code_of(refused)) == (409, "loop_detected")
    assert Message.objects.filter(direction=Direction.OUTBOUND).count() == 9


def test_a_message_to_oneself_comes_back_into_a_thread_of_its_own() -> None:
    ada, _ = two_boxes()

    sent = ada.send(ada)
    work()

    got = ada.the_received()
    assert got.thread != sent.thread
    assert got.thread.participants == []


def test_mail_between_calls_waits_in_rows() -> None:
    ada, bob = two_boxes()
    sent = ada.send(bob)

    leave()

    sent.refresh_from_db()
    assert sent.status == "submitted"
    assert bob.received() == []
    assert take_in() == ["received"]
    assert hear() == ["applied"]


def a_file() -> dict[str, str]:
    return {
        "filename": "plan.txt",
        "content_type": "text/plain",
        "content_base64": "aGVsbG8=",
    }
