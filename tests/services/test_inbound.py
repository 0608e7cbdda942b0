"""Taking copies in: once each, only where a mailbox still is, and all that follows."""

from collections.abc import Callable
from datetime import timedelta

import pytest
from django.db import transaction

from core import objects
from core.clock import database_now
from core.errors import ObjectStoreAway
from core.ids import new_id
from core.sanitizing import TooCostly
from delivery.models import ProviderEvent
from inbound import reading, receive, tasks
from inbound.models import InboundJob
from inbound.queue import queue_copies
from mailboxes.models import (
    Address,
    Alert,
    Contact,
    Event,
    Identity,
    Message,
    Tenant,
    Thread,
)
from mailboxes.statuses import MessageStatus, TenantMode
from outbound import claims
from outbound.alarms import sweep_claims
from outbound.registry import transport_for
from suppressions.models import SendListEntry
from suppressions.services import NewSuppression, suppress
from suppressions.statuses import SuppressionReason
from tests.support.hostile_mail import HOSTILE
from tests.support.loops import (
    Box,
    copy_of,
    hear,
    leave,
    letter,
    new_box,
    take_in,
    two_boxes,
)

pytestmark = pytest.mark.django_db
Later = Callable[[float], None]


@pytest.fixture
def box() -> Box:
    """A mailbox of a test tenant."""
    return new_box()


def take(raw: bytes, box: Box, *, tenant: Tenant | None = None) -> str | None:
    """Queue these octets and take them in."""
    return receive.receive(copy_of(raw, box, tenant=tenant).id)


def types(box: Box) -> list[str]:
    found = Event.objects.filter(identity=box.identity).order_by("seq")
    return list(found.values_list("type", flat=True))


def test_the_same_octets_are_stored_once(box: Box) -> None:
    raw = letter(box, "Message-ID: <a@example.net>")

    assert take(raw, box) == "received"
    second = copy_of(raw, box)
    assert receive.receive(second.id) == "duplicate"

    got = box.the_received()
    assert types(box) == ["message.received"]
    assert got.thread.message_count == 1
    extra = (got.raw_key or "").replace(got.public_id, second.message_id)
    assert objects.exists(got.raw_key or "")
    assert not objects.exists(extra)


def test_the_same_mail_by_another_way_is_stored_once(box: Box) -> None:
    raw = letter(box, "Message-ID: <a@example.net>", "Subject: Hi")

    assert take(raw, box) == "received"
    assert take(b"Received: from elsewhere\r\n" + raw, box) == "duplicate"

    assert len(box.received()) == 1


@pytest.mark.parametrize("changed", ["Subject: Ho", "body", "file"])
def test_other_mail_under_one_message_id_is_kept_and_marked(
    box: Box, changed: str
) -> None:
    first = letter(box, "Message-ID: <a@example.net>", "Subject: Hi")
    other = first.replace(b"Subject: Hi", b"Subject: Ho")
    if changed == "body":
        other = first.replace(b"Hello", b"Goodbye")
    if changed == "file":
        other = letter(
            box,
            "Message-ID: <a@example.net>\r\nSubject: Hi",
            "Content-Type: multipart/mixed; boundary=b",
            body="--b\r\n\r\nHello\r\n--b\r\nContent-Type: a/b\r\n\r\nx\r\n--b--",
        )

    assert take(first, box) == "received"
    assert take(other, box) == "received"

    flags = [message.flags for message in box.received()]
    assert all("message_id_conflict" in found for found in flags)


def test_mail_without_an_id_gets_one_of_its_octets(box: Box) -> None:
    take(letter(box), box)

    got = box.the_received()
    assert got.rfc_message_id == f"{got.raw_sha256}@synthetic.invalid"
    assert got.message_id_synthetic is True


def test_a_job_that_is_done_does_nothing_more(box: Box) -> None:
    job = copy_of(letter(box), box)

    assert receive.receive(job.id) == "received"
    assert receive.receive(job.id) is None

    job.refresh_from_db()
    assert (job.state, job.due_at) == ("received", None)
    assert box.the_received().public_id == job.message_id


@pytest.mark.parametrize(
    ("gone", "reason"),
    [
        (lambda: Address.objects.all().delete(), "no_such_mailbox"),
        (lambda: Identity.objects.update(status="deleting"), "no_such_mailbox"),
        (lambda: Address.objects.update(status="retired"), "address_not_active"),
        (lambda: Address.objects.update(status="pending"), "address_not_active"),
    ],
)
def test_mail_for_a_mailbox_that_is_gone_is_dropped(
    box: Box, gone: Callable[[], object], reason: str
) -> None:
    job = copy_of(letter(box), box)
    gone()

    assert receive.receive(job.id) == "dropped"

    job.refresh_from_db()
    assert (job.state, job.reason) == ("dropped", reason)
    assert not Message.objects.exists()
    assert not Event.objects.filter(type="message.received").exists()
    folder = f"t/{box.identity.tenant_id}/i/{box.identity.id}/m/{job.message_id}"
    assert not objects.exists(f"{folder}/raw.eml")


def test_a_paused_identity_still_receives(box: Box) -> None:
    Identity.objects.update(status="paused", pause_reason="manual")

    assert take(letter(box), box) == "received"


def test_mail_to_a_suspended_tenant_waits_five_days(box: Box) -> None:
    # Given a sender of another tenant
    sender = new_box().identity.tenant
    tenant = Tenant.objects.filter(id=box.identity.tenant_id)
    tenant.update(status="suspended", suspended_at=database_now())
    job = copy_of(letter(box), box, tenant=sender)

    # When it is taken in while the tenant is suspended, then it waits
    assert receive.receive(job.id) == "pending"
    job.refresh_from_db()
    assert job.due_at is not None
    assert job.due_at > database_now() + timedelta(minutes=50)

    # And it comes in afterwards, or not at all after five days
    tenant.update(suspended_at=database_now() - timedelta(days=5))
    assert receive.receive(job.id) == "dropped"
    tenant.update(status="active", suspended_at=None)
    assert take(letter(box), box, tenant=sender) == "received"


def test_a_live_tenants_mail_never_comes_in_this_way(box: Box) -> None:
    live = new_box(mode=TenantMode.LIVE).identity.tenant

    assert take(letter(box), box, tenant=live) == "dropped"

    assert not Message.objects.exists()
    assert Alert.objects.get().name == "loopback_of_a_live_tenant"


def test_a_copy_that_was_deleted_is_dropped(box: Box) -> None:
    job = copy_of(letter(box), box)
    objects.delete(job.source_key)

    assert receive.receive(job.id) == "dropped"

    job.refresh_from_db()
    assert job.reason == "sent_copy_missing"


def test_a_store_that_is_away_is_tried_again(
    box: Box, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = copy_of(letter(box), box)

    def away(key: str) -> bytes:
        raise ObjectStoreAway("away")

    with monkeypatch.context() as patched:
        patched.setattr(objects, "get", away)
        tasks.receive_copy(job.id)

    job.refresh_from_db()
    assert (job.state, job.attempts, job.rung_at) == ("pending", 1, None)
    assert Alert.objects.get().name == "inbound_copy_failed"
    assert take_in() == ["received"]


def test_a_copy_is_queued_once_for_a_message_and_recipient() -> None:
    ada, bob = two_boxes()
    sent = ada.send(bob)

    with transaction.atomic():
        queue_copies(sent, [bob.address], due_at=database_now())
        queue_copies(sent, [bob.address], due_at=database_now())

    assert InboundJob.objects.get().recipient == bob.address


def test_a_recorded_call_hands_over_once_however_often_it_is_recorded() -> None:
    ada, bob = two_boxes()
    sent = ada.send(bob)
    claim = claims.claim(sent.public_id)
    assert claim is not None
    result = transport_for(claim).send(claim.outgoing)

    claims.record(claim, result)
    claims.record(claim, result)

    assert InboundJob.objects.count() == 1
    assert ProviderEvent.objects.count() == 1


def test_an_acceptance_that_comes_late_still_hands_over(later: Later) -> None:
    ada, bob = two_boxes()
    sent = ada.send(bob)
    claim = claims.claim(sent.public_id)
    assert claim is not None
    result = transport_for(claim).send(claim.outgoing)
    later(301)
    sweep_claims()
    assert not InboundJob.objects.exists()

    claims.record(claim, result)

    assert take_in() == ["received"]
    hear()
    sent.refresh_from_db()
    assert sent.status == MessageStatus.DELIVERED
    assert {"reconciled", "loopback"} <= set(sent.flags)


def test_two_addresses_of_one_mailbox_get_one_message() -> None:
    ada, bob = two_boxes()
    local, _, domain = bob.address.partition("@")

    ada.send(bob, cc=[f"{local}+second@{domain}"])
    leave()

    assert sorted(map(str, take_in())) == ["duplicate", "received"]
    assert len(bob.received()) == 1
    assert hear() == ["applied", "applied"]


def test_a_blocked_sender_is_hidden_and_counts_nowhere(box: Box) -> None:
    SendListEntry.objects.create(
        tenant=box.identity.tenant,
        direction="receive",
        kind="block",
        entry="@example.net",
    )

    assert take(letter(box), box) == "received"

    got = box.the_received()
    assert got.status == "hidden"
    assert (got.thread.message_count, got.thread.unread_count) == (0, 0)
    assert types(box) == []
    assert not Contact.objects.exists()
    assert box.api.get(f"{box.api.path}/{got.public_id}").status_code == 404


def test_an_allowed_sender_is_known(box: Box) -> None:
    SendListEntry.objects.create(
        tenant=box.identity.tenant,
        direction="receive",
        kind="allow",
        entry="jo@example.net",
    )

    take(letter(box), box)

    assert box.the_received().known_sender is True


def test_a_suppressed_sender_is_shown_and_marked(box: Box) -> None:
    suppress(
        [NewSuppression("jo@example.net", SuppressionReason.MANUAL)],
        tenant_id=box.identity.tenant_id,
        source_message_id=new_id("msg"),
        now=database_now(),
    )

    take(letter(box), box)

    got = box.the_received()
    assert got.status == "received"
    assert "sender_suppressed" in got.flags


def test_a_bounce_report_is_kept_out_of_sight(box: Box) -> None:
    kind = "Content-Type: multipart/report; report-type=delivery-status; boundary=b"

    take(letter(box, kind, body="--b\r\n\r\nx\r\n--b--"), box)

    got = box.the_received()
    assert (got.kind, got.status) == ("dsn", "hidden")
    assert types(box) == []


def test_a_second_from_takes_the_verdict_away(box: Box) -> None:
    raw = letter(box).replace(b"From: Jo", b"From: x@example.org, Jo")

    take(raw, box)

    got = box.the_received()
    assert (got.from_address, got.verdict) == ("x@example.org", "unaligned")


def test_answers_that_would_go_elsewhere_are_pointed_out(box: Box) -> None:
    take(letter(box, "Reply-To: jo@elsewhere.example"), box)

    assert "reply_to_mismatch" in box.the_received().flags


@pytest.mark.parametrize(
    ("date", "is_kept"),
    [
        ("Mon, 14 Sep 1998 10:12:00 +0000", False),
        ("Mon, 14 Sep 2099 10:12:00 +0000", False),
        ("Wed, 14 Oct 2026 10:12:00 +0000", True),
        ("yesterday", False),
    ],
)
def test_a_date_out_of_bounds_says_nothing(box: Box, date: str, is_kept: bool) -> None:
    take(letter(box, f"Date: {date}"), box)

    assert (box.the_received().sent_at is not None) is is_kept


def test_headers_join_in_their_order_and_subjects_never(box: Box) -> None:
    for name in ("a", "b"):
        take(letter(box, f"Message-ID: <{name}@example.net>", body=name), box)
    first, second = (message.thread for message in box.received())

    answers = {
        "References: <b@example.net> <a@example.net>": first,
        "In-Reply-To: <b@example.net>\r\nReferences: <a@example.net>": second,
        "In-Reply-To: <x@example.net>\r\nReferences: <b@example.net>": second,
        "Subject: Re: x": None,
    }
    for n, (field, thread) in enumerate(answers.items()):
        take(letter(box, field, body=str(n)), box)
        joined = box.received()[-1].thread
        assert (joined == thread) is (thread is not None)
    assert Thread.objects.filter(identity=box.identity).count() == 3


def test_a_stranger_who_names_a_message_is_pointed_out(box: Box) -> None:
    take(letter(box, "Message-ID: <a@example.net>"), box)
    raw = letter(box, "In-Reply-To: <a@example.net>", body="x")

    take(raw.replace(b"jo@example.net", b"eve@example.org"), box)

    first, second = box.received()
    assert second.thread == first.thread
    assert "thread_join_unverified" in second.flags
    assert "thread_join_unverified" not in first.flags


def test_mail_brings_a_thread_back_from_the_archive(box: Box) -> None:
    take(letter(box, "Message-ID: <a@example.net>"), box)
    Thread.objects.update(archived=True, subject="")

    raw = letter(box, "In-Reply-To: <a@example.net>", "Subject: Now", body="x")
    take(raw, box)

    thread = Thread.objects.get()
    assert thread.archived is False
    assert thread.subject == "Now"
    assert (thread.message_count, thread.unread_count) == (2, 2)


def test_html_that_costs_too_much_is_left_out(
    box: Box, monkeypatch: pytest.MonkeyPatch
) -> None:
    def costly(page: str) -> None:
        raise TooCostly("9")

    monkeypatch.setattr(reading, "sanitize_apart", costly)

    take(letter(box, "Content-Type: text/html", body="<p>Hello</p>"), box)

    got = box.the_received()
    assert (got.html_sanitized, got.text) == (None, "Hello")
    assert "body_truncated" in got.flags


def test_long_bodies_are_cut(box: Box) -> None:
    take(letter(box, f"Subject: {'s' * 2000}", body="é" * 400_000), box)

    got = box.the_received()
    assert len((got.text or "").encode()) == 512 * 1024
    assert len((got.extracted_text or "").encode()) == 256 * 1024
    assert len(got.subject or "") == 998
    assert len(got.snippet or "") == 240
    assert "body_truncated" in got.flags
    data = Event.objects.get().payload["data"]
    assert data["extracted_text_truncated"] is True
    assert data["extracted_text"] == "é" * 8192


@pytest.mark.parametrize(
    ("limit", "told", "is_cut"), [(5, "éé", True), (6, "ééé", False), (0, None, True)]
)
def test_an_event_holds_as_much_text_as_the_policy_says(
    box: Box, limit: int, told: str | None, is_cut: bool
) -> None:
    policy = {"webhook_text_bytes": limit}
    Tenant.objects.filter(id=box.identity.tenant_id).update(policy=policy)

    take(letter(box, body="ééé"), box)

    data = Event.objects.get().payload["data"]
    assert data["extracted_text"] == told
    assert data["extracted_text_truncated"] is is_cut
    assert box.the_received().extracted_text == "ééé"


@pytest.mark.parametrize("name", HOSTILE)
def test_malformed_mail_is_stored(box: Box, name: str) -> None:
    assert take(HOSTILE[name], box) == "received"

    got = box.the_received()
    assert objects.get(got.raw_key or "") == HOSTILE[name]
    for file in got.attachments.all():
        assert len(objects.get(file.object_key)) == file.size
