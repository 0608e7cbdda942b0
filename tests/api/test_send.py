"""POST /v1/identities/{id}/messages: accepted once, replayed as it was."""

from datetime import timedelta

import pytest
from pytest_django import Settings

from core import clock, objects
from core.canonical import key_hash
from core.sealing import Place, sealer
from delivery.models import Delivery, OutboundState
from mailboxes.models import Address, Contact, Identity, Label, Message, Thread
from outbound.api.schemas import AcceptedMessage
from outbound.models import LedgerEntry
from quota.models import Allowance, Hold
from tests.support.api import ApiClient, booking, code_of, paths_of

pytestmark = pytest.mark.django_db


def test_a_send_is_accepted_with_the_whole_message(
    api: ApiClient, address: Address
) -> None:
    body = booking(
        to=["Jo@Example.net", {"address": "lee@example.org", "name": "Lee"}],
        bcc=["boss@example.org"],
        labels=["bookings", "bookings", "a:b"],
        metadata={"booking": "2291"},
        headers={"x-trace": "1", "IMPORTANCE": "High"},
    )

    response = api.send(body)

    assert response.status_code == 202, response.content
    assert "Idempotent-Replayed" not in response
    message = response.json()
    AcceptedMessage.model_validate(message)
    assert message["status"] == "queued"
    assert message["deduplicated"] is False
    assert message["from"] == {"address": address.address, "name": "Acme Bookings"}
    assert message["to"] == [
        {"address": "jo@example.net", "name": None},
        {"address": "lee@example.org", "name": "Lee"},
    ]
    assert message["bcc"] == [{"address": "boss@example.org", "name": None}]
    assert message["labels"] == ["a:b", "bookings"]
    assert message["metadata"] == {"booking": "2291"}
    assert [d["status"] for d in message["deliveries"]] == ["queued"] * 3


def test_an_accepted_send_writes_every_row(api: ApiClient, identity: Identity) -> None:
    message_id = api.send(booking(cc=["lee@example.org"], labels=["x"])).json()["id"]

    message = Message.objects.get(public_id=message_id)
    assert (message.identity_id, message.tenant_id) == (identity.id, identity.tenant_id)
    assert Delivery.objects.filter(message=message, status="queued").count() == 2
    state = OutboundState.objects.get(message=message)
    assert state.dispatch_at == message.received_at == message.sent_at
    assert Label.objects.get(message=message).label == "x"
    assert Thread.objects.get(key=message.thread_id).seq == 1
    known = Contact.objects.filter(identity=identity)
    assert {c.address: c.outbound_count for c in known} == {
        "jo@example.net": 1,
        "lee@example.org": 1,
    }
    hold = Hold.objects.get(ref=message_id)
    assert (hold.units, Allowance.objects.get().held) == (2, 2)
    entry = LedgerEntry.objects.get(key_hash=key_hash("key-1"))
    assert entry.message_id == message_id
    assert entry.expires_at == message.received_at + timedelta(days=30)


def test_the_sent_copy_can_rebuild_the_ledger_and_hides_bcc(
    api: ApiClient,
) -> None:
    message_id = api.send(booking(bcc=["boss@example.org"])).json()["id"]

    row = Message.objects.get(public_id=message_id)
    assert row.raw_key is not None
    mime, metadata = objects.get(row.raw_key), objects.metadata(row.raw_key)
    assert b"boss@example.org" not in mime
    assert len(mime) == row.raw_size
    entry = LedgerEntry.objects.get(message_id=message_id)
    sealed = metadata.pop("bcc")
    assert metadata == {
        "tenant": row.tenant_id,
        "identity": row.identity_id,
        "message": message_id,
        "idem_key_sha256": entry.key_hash,
        "fingerprint": entry.fingerprint,
        "operation": "send",
        "kind": "transactional",
        "thread": row.thread.public_id,
        "thread_seq": "",
    }
    opened = sealer().open(sealed, place=Place("objects", "bcc", row.raw_key))
    assert b"boss@example.org" in opened


def test_the_same_request_again_is_answered_as_the_first_was(
    api: ApiClient,
) -> None:
    first = api.send(booking())
    Message.objects.update(status="submitted")

    again = api.send(booking())

    assert again.status_code == 202
    assert again["Idempotent-Replayed"] == "true"
    assert again.json() == {**first.json(), "deduplicated": True}
    assert Message.objects.count() == Hold.objects.count() == 1


def test_a_replay_keeps_the_order_of_the_first_answers_fields(api: ApiClient) -> None:
    body = booking(
        cc=[{"address": "lee@example.org", "name": "Lee"}],
        metadata={"zimmer": "7", "booking": "2291"},
        attachments=[
            {"filename": "a.csv", "content_type": "text/csv", "content_base64": "YQ=="}
        ],
    )
    first, again = api.send(body), api.send(body)

    assert first.status_code == again.status_code == 202, first.content
    assert again.content == first.content.replace(
        b'"deduplicated":false', b'"deduplicated":true'
    )


def test_order_of_keys_and_white_space_do_not_make_another_request(
    api: ApiClient,
) -> None:
    first = api.send('{"to":["a@b.example"],"subject":"s","text":"t"}')
    again = api.send('{ "text": "t",\n "subject": "s", "to": ["a@b.example"] }')

    assert (first.status_code, again.status_code) == (202, 202)
    assert again.json()["deduplicated"] is True


@pytest.mark.parametrize(
    "other",
    [
        booking(subject="Another"),
        booking(to=[{"address": "jo@example.net"}]),
        booking(metadata={}),
    ],
)
def test_another_body_under_the_same_key_is_a_conflict(
    api: ApiClient, other: dict[str, object]
) -> None:
    first = api.send(booking()).json()

    response = api.send(other)

    assert (response.status_code, code_of(response)) == (409, "idempotency_conflict")
    details = response.json()["error"]["details"]
    assert details == {"original_message_id": first["id"]}


def test_a_replay_survives_a_later_pause_and_suspension(
    api: ApiClient, identity: Identity
) -> None:
    first = api.send(booking()).json()
    Identity.objects.update(status="paused", pause_reason="manual")
    type(identity.tenant).objects.update(status="suspended")

    assert api.send(booking()).json()["id"] == first["id"]
    assert code_of(api.send(booking(), key="key-2")) == "tenant_suspended"


def test_a_refusal_records_nothing_and_is_judged_afresh(
    api: ApiClient, identity: Identity
) -> None:
    Identity.objects.update(owner_email=None)
    refused = api.send(booking())
    assert code_of(refused) == "identity_owner_required"
    assert not LedgerEntry.objects.exists()

    Identity.objects.update(owner_email="ada@example.com")

    assert api.send(booking()).status_code == 202


def test_an_expired_key_is_as_new_and_keeps_one_row(api: ApiClient) -> None:
    """Row 26: the old row still stands when the key comes again."""
    first = api.send(booking()).json()
    Message.objects.update(status="submitted")
    Delivery.objects.update(status="submitted")
    clock.offset = timedelta(days=31)

    second = api.send(booking(subject="Another"))

    assert second.status_code == 202, second.content
    assert second.json()["id"] != first["id"]
    entry = LedgerEntry.objects.get()
    assert entry.message_id == second.json()["id"]


@pytest.mark.parametrize("status", ["queued", "uncertain"])
def test_a_key_whose_message_is_open_does_not_expire(
    api: ApiClient, status: str
) -> None:
    first = api.send(booking()).json()
    Message.objects.update(status=status)
    Delivery.objects.update(status="submitted")
    clock.offset = timedelta(days=31)

    assert api.send(booking()).json()["id"] == first["id"]


def test_a_key_does_not_expire_while_one_recipient_is_uncertain(
    api: ApiClient,
) -> None:
    # Given a send that was partly accepted, and whose end is unknown for the rest
    to = ["jo@example.net", "lee@example.org"]
    first = api.send(booking(to=to)).json()
    Message.objects.update(status="submitted")
    Delivery.objects.filter(address=to[0]).update(status="submitted")
    Delivery.objects.filter(address=to[1]).update(status="uncertain")
    clock.offset = timedelta(days=31)

    # When it is asked again after the key's days, then the answer is the first one's,
    # and another body is still a conflict
    assert api.send(booking(to=to)).json()["id"] == first["id"]
    other = api.send(booking(to=to, subject="Another"))
    assert code_of(other) == "idempotency_conflict"
    assert Message.objects.count() == 1


def test_with_zero_days_a_key_is_never_forgotten(
    api: ApiClient, settings: Settings
) -> None:
    settings.PM_IDEMPOTENCY_DAYS = 0
    api.send(booking())

    assert LedgerEntry.objects.get().expires_at is None


def test_two_lines_of_the_header_are_a_key_of_their_own(api: ApiClient) -> None:
    joined = api.send(booking(), key="a,b")
    alone = api.send(booking(), key="a")

    assert joined.status_code == alone.status_code == 202
    assert joined.json()["id"] != alone.json()["id"]


@pytest.mark.parametrize("key", [" ", "~" * 255, "a b c", "\x20\x7e"])
def test_keys_of_printable_ascii_are_taken(api: ApiClient, key: str) -> None:
    assert api.send(booking(), key=key).status_code == 202


@pytest.mark.parametrize("key", ["", "x" * 256, "tab\there", "\x7f", "café"])
def test_other_keys_are_refused(api: ApiClient, key: str) -> None:
    response = api.send(booking(), key=key)

    assert (response.status_code, code_of(response)) == (400, "invalid_idempotency_key")


def test_a_send_without_a_key_is_refused(api: ApiClient) -> None:
    response = api.send(booking(), key=None)

    assert code_of(response) == "idempotency_key_required"
    assert not Message.objects.exists()


def test_one_address_spelled_many_ways_is_one_delivery(api: ApiClient) -> None:
    # faults, row 47: case, U-label and A-label, trailing dot, in to, cc and bcc
    body = booking(
        to=["Ana@Bücher.example"],
        cc=["ana@xn--bcher-kva.example", "lee@example.org"],
        bcc=["ANA@BÜCHER.EXAMPLE.", "<LEE@example.org>"],
    )

    message = api.send(body).json()

    assert [(d["address"], d["field"]) for d in message["deliveries"]] == [
        ("ana@xn--bcher-kva.example", "to"),
        ("lee@example.org", "cc"),
    ]
    assert Delivery.objects.count() == 2


def test_a_domain_in_any_script_is_reached_and_a_local_part_is_not(
    api: ApiClient,
) -> None:
    refused = api.send(booking(to=["ok@example.org", "dörte@example.com"]))
    taken = api.send(booking(to=["ana@bücher.example"]), key="key-2")

    assert code_of(refused) == "address_unsupported"
    assert paths_of(refused) == ["to[1]"]
    assert taken.json()["to"][0]["address"] == "ana@xn--bcher-kva.example"


def test_the_text_of_a_page_is_derived_and_travels_with_it(api: ApiClient) -> None:
    sent = api.send(booking(text=None, html="<p>Hello <b>Jo</b></p><p>Bye</p>")).json()

    assert sent["extracted_text"].split() == ["Hello", "Jo", "Bye"]
    mime = objects.get(Message.objects.get().raw_key or "")
    assert b"text/plain" in mime
    assert b"<p>Hello <b>Jo</b></p>" in mime


def test_a_text_too_long_for_its_row_is_cut_there_and_sent_whole(
    api: ApiClient,
) -> None:
    text = "é" * 600_000

    sent = api.send(booking(text=text)).json()

    message = Message.objects.get()
    assert sent["flags"] == message.flags == ["body_truncated"]
    assert len(sent["extracted_text"].encode()) == 256 * 1024
    assert len((message.text or "").encode()) == 512 * 1024
    assert (message.raw_size or 0) > len(text.encode())
