"""Replies, replies to all, forwards, and sends into a thread."""

from datetime import timedelta
from email.message import EmailMessage
from typing import Any

import pytest

from core import objects
from domains.models import Domain
from mailboxes.models import Address, Contact, Identity, Message, Thread
from outbound.deliver import deliver
from outbound.models import LedgerEntry
from tests.factories import AddressFactory, DomainFactory
from tests.support.answering import named, received, with_file
from tests.support.api import ApiClient, booking, code_of, paths_of
from tests.support.mail_reader import header_block, modern
from tests.support.sending import open_account
from tests.support.smtp_server import SmtpServer

pytestmark = pytest.mark.django_db


def stored(response: Any) -> Message:
    assert response.status_code == 202, response.content
    return Message.objects.get(public_id=response.json()["id"])


def mime_of(message: Message) -> bytes:
    return objects.get(message.raw_key or "")


def mail_of(response: Any) -> EmailMessage:
    return modern(mime_of(stored(response)))


def fields(response: Any) -> dict[str, str]:
    return dict(header_block(mime_of(stored(response))))


def test_a_reply_goes_to_the_sender_into_the_thread(
    api: ApiClient, identity: Identity
) -> None:
    asked = received(identity, ref_ids=["first@example.net"])

    response = api.answer("reply", asked.public_id)

    answer = stored(response)
    assert answer.to_addrs == [{"address": "jo@example.net", "name": "Jo"}]
    assert (answer.operation, answer.subject) == ("reply", "Re: Your booking")
    assert (answer.thread_id, answer.in_reply_to) == (
        asked.thread_id,
        asked.rfc_message_id,
    )
    shown = fields(response)
    assert shown["In-Reply-To"] == f"<{asked.rfc_message_id}>"
    assert shown["References"] == f"<first@example.net> <{asked.rfc_message_id}>"
    assert response.json()["in_reply_to"] == asked.rfc_message_id
    assert response.json()["thread_id"] == asked.thread.public_id


def test_a_reply_moves_its_thread_on_and_makes_its_recipients_known(
    api: ApiClient, identity: Identity
) -> None:
    asked = received(identity)
    Thread.objects.update(last_at=asked.received_at - timedelta(days=1), subject="Old")

    answer = stored(api.answer("reply", asked.public_id))

    thread = Thread.objects.get()
    assert (thread.message_count, thread.subject) == (1, "Old")
    assert thread.last_at == thread.last_outbound_at == answer.received_at
    assert thread.participants == [{"address": "jo@example.net", "name": "Jo"}]
    assert thread.lock_owner == answer.public_id
    contact = Contact.objects.get(address="jo@example.net")
    assert (contact.outbound_count, contact.last_thread_pk) == (1, thread.key)


@pytest.mark.parametrize(
    ("changes", "target"),
    [
        ({"known_sender": True}, "answers@other.example"),
        ({"reply_to": named("desk@mail.example.net")}, "desk@mail.example.net"),
        ({}, "jo@example.net"),
    ],
)
def test_a_reply_to_counts_only_where_it_can_be_trusted(
    api: ApiClient, identity: Identity, changes: dict[str, Any], target: str
) -> None:
    asked = received(identity, **{"reply_to": named("answers@other.example")} | changes)

    answer = stored(api.answer("reply", asked.public_id))

    assert [row["address"] for row in answer.to_addrs] == [target]


def test_an_address_that_was_written_to_is_a_trusted_reply_to(
    api: ApiClient, identity: Identity
) -> None:
    api.send(booking(to=["answers@other.example"]), key="before")
    asked = received(identity, reply_to=named("Answers@other.example"))

    answer = stored(api.answer("reply", asked.public_id))

    assert [row["address"] for row in answer.to_addrs] == ["answers@other.example"]


def test_a_reply_to_our_own_message_goes_to_those_it_was_written_to(
    api: ApiClient,
) -> None:
    body = booking(cc=["lee@example.org"], bcc=["boss@example.org"])
    first = api.send(body, key="first").json()
    Thread.objects.update(lock_owner=None, lock_until=None)

    again = stored(api.answer("reply", first["id"]))

    assert [row["address"] for row in again.to_addrs] == ["jo@example.net"]
    assert [row["address"] for row in again.cc_addrs] == ["lee@example.org"]
    assert again.bcc_addrs == []
    assert again.in_reply_to == first["rfc_message_id"]


def test_reply_all_leaves_out_bcc_and_own_addresses_of_any_status(
    api: ApiClient, identity: Identity, address: Address
) -> None:
    retired = AddressFactory.create(
        identity=identity, role="alias", status="retired", local_part="old"
    )
    asked = received(
        identity,
        to_addrs=named(address.address.upper(), "lee@example.org"),
        cc_addrs=named(retired.address, "kim@example.org", "LEE@example.org"),
        bcc_addrs=named("secret@example.org"),
        delivered_to=address.address,
        is_bcc=True,
    )

    response = api.answer("reply-all", asked.public_id)

    answer = stored(response)
    assert [row["address"] for row in answer.to_addrs] == [
        "jo@example.net",
        "lee@example.org",
    ]
    assert [row["address"] for row in answer.cc_addrs] == ["kim@example.org"]
    assert b"secret@" not in mime_of(answer)
    assert address.address.encode() not in mime_of(answer).split(b"To: ")[1]


def test_a_reply_all_to_nobody_but_ourselves_is_refused(
    api: ApiClient, identity: Identity, address: Address
) -> None:
    asked = received(
        identity, from_address=address.address, to_addrs=named(address.address)
    )

    response = api.answer("reply-all", asked.public_id)

    assert (code_of(response), paths_of(response)) == ("invalid_request", ["to"])


@pytest.mark.parametrize("operation", ["reply", "reply-all"])
@pytest.mark.parametrize("field", ["to", "cc", "bcc", "subject", "thread_id"])
def test_an_answer_takes_recipients_and_subject_from_nobody(
    api: ApiClient, identity: Identity, operation: str, field: str
) -> None:
    asked = received(identity)

    response = api.answer(operation, asked.public_id, {"text": "x", field: "y"})

    assert (code_of(response), paths_of(response)) == ("invalid_request", [field])


def test_a_forward_tells_where_it_comes_from_and_keeps_references(
    api: ApiClient, identity: Identity
) -> None:
    Identity.objects.update(signature_text="Ada")
    asked = received(
        identity,
        from_address="accounts@brightwell.example",
        from_name="Brightwell Leeds",
        subject="Invoice 88213 für Müller",
        text="Please pay.",
        html_sanitized="<p>Please pay.</p>",
        to_addrs=named("maintenance@agents.example"),
        ref_ids=["first@brightwell.example"],
    )
    body = {"to": ["kim@example.org"], "text": "Look", "html": "<p>Look</p>"}

    response = api.answer("forward", asked.public_id, body)

    mail = mail_of(response)
    text = mail.get_body(("plain",))
    page = mail.get_body(("html",))
    assert text is not None
    assert page is not None
    assert text.get_content().replace("\r\n", "\n").strip() == (
        "Look\n\n---------- Forwarded message ---------\n"
        "From: Brightwell Leeds <accounts@brightwell.example>\n"
        "Date: Mon, 14 Sep 2026 08:12:00 +0000\n"
        "Subject: Invoice 88213 für Müller\nTo: maintenance@agents.example\n\n"
        "Please pay.\n\n-- \nAda"
    )
    assert "<blockquote><p>Please pay.</p></blockquote>" in page.get_content()
    assert mail["Subject"] == "Fwd: Invoice 88213 für Müller"
    shown = fields(response)
    assert "In-Reply-To" not in shown
    assert shown["References"] == (
        f"<first@brightwell.example> <{asked.rfc_message_id}>"
    )
    assert stored(response).thread_id == asked.thread_id


def test_a_forward_takes_safe_files_along(api: ApiClient, identity: Identity) -> None:
    asked = received(identity)
    with_file(asked, b"%PDF-1.7 invoice")
    with_file(asked, b"MZ", filename="run.exe", risk="executable")
    own = {"filename": "b.txt", "content_type": "text/plain", "content_base64": "Yg=="}

    body = {"to": ["kim@example.org"], "attachments": [own]}
    response = api.answer("forward", asked.public_id, body)

    files = {
        f.get_filename(): f.get_content() for f in mail_of(response).iter_attachments()
    }
    assert files == {"b.txt": "b", "invoice.pdf": b"%PDF-1.7 invoice"}
    assert [a["filename"] for a in response.json()["attachments"]] == [
        "b.txt",
        "invoice.pdf",
    ]
    kept = stored(response).attachments.get(filename="invoice.pdf")
    assert objects.get(kept.object_key) == b"%PDF-1.7 invoice"


def test_a_forward_can_leave_the_files_behind(
    api: ApiClient, identity: Identity
) -> None:
    asked = received(identity)
    with_file(asked)

    body = {"to": ["kim@example.org"], "include_attachments": False}
    response = api.answer("forward", asked.public_id, body)

    assert response.json()["attachments"] == []


def test_a_file_that_is_gone_stops_a_forward_and_says_which(
    api: ApiClient, identity: Identity
) -> None:
    asked = received(identity)
    file = with_file(asked)
    objects.delete(file.object_key)

    response = api.answer("forward", asked.public_id, {"to": ["kim@example.org"]})

    assert (response.status_code, code_of(response)) == (404, "attachment_not_found")
    assert response.json()["error"]["details"] == {"attachment_id": file.id}


def test_our_own_html_is_forwarded_from_its_sanitised_copy(api: ApiClient) -> None:
    page = "<p>Hi</p><script>alert(1)</script>"
    first = api.send(booking(html=page), key="first").json()
    assert Message.objects.get().html_sanitized is None  # off the request path
    Thread.objects.update(lock_owner=None, lock_until=None)

    body = {"to": ["kim@example.org"], "text": "See", "html": "<p>See</p>"}
    shown = mail_of(api.answer("forward", first["id"], body)).get_body(("html",))

    assert shown is not None
    assert "<blockquote><p>Hi</p></blockquote>" in shown.get_content()


def test_a_send_into_a_thread_answers_its_newest_message(
    api: ApiClient, identity: Identity
) -> None:
    asked = received(identity)
    newest = received(identity, thread=asked.thread, ref_ids=[asked.rfc_message_id])
    received(identity, thread=asked.thread, message_id_synthetic=True)

    response = api.send(booking(thread_id=asked.thread.public_id))

    shown = fields(response)
    assert shown["In-Reply-To"] == f"<{newest.rfc_message_id}>"
    assert shown["References"] == f"<{asked.rfc_message_id}> <{newest.rfc_message_id}>"
    assert stored(response).thread_id == asked.thread_id
    assert stored(response).subject == "Your booking"


def test_a_synthetic_id_is_never_named(api: ApiClient, identity: Identity) -> None:
    asked = received(identity, message_id_synthetic=True)

    shown = fields(api.answer("reply", asked.public_id))

    assert not {"In-Reply-To", "References"} & shown.keys()


@pytest.mark.parametrize("operation", ["reply", "reply-all", "forward"])
@pytest.mark.parametrize("status", ["hidden", "throttled", "quarantined"])
def test_what_cannot_be_seen_cannot_be_answered(
    api: ApiClient, identity: Identity, operation: str, status: str
) -> None:
    asked = received(identity, status=status)
    body = {"to": ["kim@example.org"]} if operation == "forward" else None

    response = api.answer(operation, asked.public_id, body)

    assert (response.status_code, code_of(response)) == (404, "message_not_found")


def test_a_message_of_another_mailbox_is_not_there(api: ApiClient) -> None:
    other = received(AddressFactory.create().identity)

    response = api.answer("reply", other.public_id)
    into = api.send(booking(thread_id=other.thread.public_id))

    assert (response.status_code, code_of(response)) == (404, "message_not_found")
    assert (into.status_code, code_of(into)) == (404, "thread_not_found")


@pytest.mark.parametrize("message_id", ["x", "msg_1", "%00", "thr_" + "0" * 26])
def test_what_is_no_id_is_no_message(api: ApiClient, message_id: str) -> None:
    response = api.answer("reply", message_id)

    assert (response.status_code, code_of(response)) == (404, "message_not_found")


@pytest.mark.parametrize("operation", ["send", "reply", "reply-all", "forward"])
def test_r15_a_repeated_request_is_one_mail_at_the_relay_on_every_route(
    db: None, operation: str
) -> None:
    # Given a tenant whose mail leaves by a real relay, and mail that came in
    with SmtpServer() as relay:
        account = open_account(relay, base_url="").account
        api = ApiClient(account.api_key, account.identity_id)
        identity = Identity.objects.get(id=account.identity_id)
        asked = received(identity, to_addrs=named(account.address))

        def act() -> Any:
            if operation == "send":
                return api.send(booking())
            to = {"to": ["kim@example.org"]} if operation == "forward" else {}
            return api.answer(operation, asked.public_id, {"text": "Fine.", **to})

        # When it is asked for before and after it left, and rung twice each time
        first = act()
        answers = []
        for _ in range(2):
            answers.append(act())
            for message in Message.objects.filter(direction="outbound"):
                deliver(message.public_id)
                deliver(message.public_id)
        answers.append(act())

        # Then each answer is the first, and the relay took one mail for one recipient
        assert first.status_code == 202, first.content
        for again in answers:
            assert again["Idempotent-Replayed"] == "true"
            assert again.json() == {**first.json(), "deduplicated": True}
        assert Message.objects.get(direction="outbound").status == "submitted"
        assert [len(mail.recipients) for mail in relay.mails] == [1]


def test_one_key_on_two_messages_or_operations_is_a_conflict(
    api: ApiClient, identity: Identity
) -> None:
    asked, other = received(identity), received(identity)
    first = stored(api.answer("reply", asked.public_id))

    for response in (
        api.answer("reply", other.public_id),
        api.answer("reply-all", asked.public_id),
    ):
        assert code_of(response) == "idempotency_conflict"
        details = response.json()["error"]["details"]
        assert details == {"original_message_id": first.public_id}


def test_a_thread_is_answered_from_the_address_it_was_written_to(
    api: ApiClient, identity: Identity, address: Address
) -> None:
    alias = AddressFactory.create(
        identity=identity, role="alias", status="retiring", local_part="old"
    )
    asked, other = received(identity), received(identity)
    Thread.objects.filter(key=asked.thread_id).update(reply_from_address=alias.address)

    own = api.answer("reply", asked.public_id, key="a")
    elsewhere = api.answer(
        "reply",
        other.public_id,
        {"text": "x", "from_address": alias.address},
        key="b",
    )

    assert stored(own).from_address == alias.address
    assert (code_of(elsewhere), paths_of(elsewhere)) == (
        "invalid_request",
        ["from_address"],
    )
    assert stored(api.answer("reply", other.public_id)).from_address == address.address


def test_a_pinned_thread_stays_with_the_platform_until_it_has_been_quiet(
    api: ApiClient, identity: Identity, address: Address
) -> None:
    platform = AddressFactory.create(
        identity=identity,
        role="alias",
        domain=DomainFactory.create(kind="platform", method="platform", tenant=None),
    )
    asked = received(identity)
    Thread.objects.update(
        reply_from_address=address.address,
        fallback_pinned=True,
        last_at=asked.received_at,
    )

    pinned = stored(api.answer("reply", asked.public_id, key="a"))
    Thread.objects.update(
        last_at=asked.received_at - timedelta(hours=73),
        lock_owner=None,
        lock_until=None,
    )
    back = stored(api.answer("reply", asked.public_id, key="b"))

    assert (pinned.from_address, back.from_address) == (
        platform.address,
        address.address,
    )
    assert Thread.objects.get().fallback_pinned is False


def test_replies_come_back_by_a_token_where_the_domain_takes_one(
    api: ApiClient, identity: Identity, address: Address
) -> None:
    Domain.objects.update(reply_token="subaddress")
    asked = received(identity)
    local, _, domain = address.address.partition("@")

    first = api.send(booking(), key="new")
    answer = api.answer("reply", asked.public_id)

    for response in (first, answer):
        seq = stored(response).thread.seq
        shown = response.json()["reply_to"]
        assert [row["name"] for row in shown] == ["Acme Bookings"]
        assert shown[0]["address"].startswith(f"{local}+t")
        assert shown[0]["address"].endswith(f"@{domain}")
        assert (
            mail_of(response)["Reply-To"].addresses[0].addr_spec
            == (shown[0]["address"])
        )
        assert seq in (1, 2)
    assert stored(first).thread.seq != stored(answer).thread.seq


def test_without_sub_addresses_there_is_no_reply_to(api: ApiClient) -> None:
    response = api.send(booking())

    assert response.json()["reply_to"] == []
    assert "Reply-To" not in fields(response)


def test_r29_a_reply_late_in_a_long_thread_names_first_and_newest(
    api: ApiClient, identity: Identity
) -> None:
    ids = [f"{n:03}.{'x' * 90}@mail.example.net" for n in range(120)]
    asked = received(identity, rfc_message_id=ids[-1], ref_ids=ids[:-1])

    answer = stored(api.answer("reply", asked.public_id))

    shown = dict(header_block(mime_of(answer)))["References"]
    listed = [word.strip("<>") for word in shown.split()]
    assert listed[0] == ids[0]
    assert listed[1:] == ids[-len(listed) + 1 :]
    assert len(shown.encode()) <= 2048
    assert "=?" not in shown
    assert answer.ref_ids == listed


@pytest.mark.parametrize(
    ("stored_hop", "hop"), [(None, "1"), (0, "1"), (3, "4"), (8, "9")]
)
def test_each_answer_counts_one_hop_more(
    api: ApiClient, identity: Identity, stored_hop: int | None, hop: str
) -> None:
    asked = received(identity, automated={"hop": stored_hop} if stored_hop else None)

    assert fields(api.answer("reply", asked.public_id))["X-Pylota-Mail-Hop"] == hop


def test_the_tenth_hop_is_a_loop_whatever_the_route(
    api: ApiClient, identity: Identity
) -> None:
    asked = received(identity, automated={"hop": 9})
    for response in (
        api.answer("reply", asked.public_id),
        api.answer("forward", asked.public_id, {"to": ["kim@example.org"]}),
        api.send(booking(thread_id=asked.thread.public_id)),
    ):
        assert (response.status_code, code_of(response)) == (409, "loop_detected")
        assert response.json()["error"]["details"]["hop"] == 10
    assert not LedgerEntry.objects.exists()


HOSTILE = [
    "x\r\nBcc: evil@example.org",
    "=?utf-8?q?x=0D=0ABcc:_evil=40example.org?=",
    "a\x00b\x07c",
    '"quoted, (comment) <evil@example.org>',
    "ü" * 400,
    "\u202etxt.exe\u2028next",
]


@pytest.mark.parametrize("text", HOSTILE)
@pytest.mark.parametrize("operation", ["reply", "reply-all", "forward"])
def test_nothing_in_hostile_mail_becomes_a_header_of_its_answer(
    api: ApiClient, identity: Identity, operation: str, text: str
) -> None:
    stored_text = text.replace("\x00", "")  # the database holds none
    asked = received(
        identity,
        from_name=stored_text,
        subject=stored_text,
        text=stored_text,
        to_addrs=[{"address": "lee@example.org", "name": stored_text}],
        in_reply_to=stored_text,
        ref_ids=[stored_text, "fine@example.net", "two words@example.net"],
    )
    body = {"to": ["kim@example.org"], "html": "<p>x</p>"}

    response = api.answer(
        operation, asked.public_id, body if operation == "forward" else None
    )

    names = [name for name, _ in header_block(mime_of(stored(response)))]
    assert set(names) <= {
        "From", "To", "Cc", "Subject", "Date", "Message-ID", "In-Reply-To",
        "References", "X-Pylota-Mail-Hop", "MIME-Version", "Content-Type",
        "Content-Transfer-Encoding",
    }  # fmt: skip
    assert len(names) == len(set(names))
    references = fields(response)["References"].split()
    assert references[-2:] == ["<fine@example.net>", f"<{asked.rfc_message_id}>"]
    assert references[:-2] in ([], [f"<{text}>"])  # literal, or left out
    page = mail_of(response).get_body(("plain",))
    assert page is not None
