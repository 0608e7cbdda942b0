"""The admin shows a message and takes a person's answer, and nothing else."""

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client
from django.urls import reverse

from core.clock import database_now
from delivery.models import Attempt, Delivery, OutboundState
from delivery.statuses import AttemptPhase, AttemptResult, DeliveryStatus
from mailboxes.models import AuditRow, Event, Message
from mailboxes.statuses import MessageStatus, Provider
from outbound.models import LedgerEntry
from tests.factories import MessageFactory, QueuedMessageFactory, key_hash_of

pytestmark = pytest.mark.django_db

SCRIPT = "<script>alert(1)</script>"


def visitor(*permissions: str) -> Client:
    """Return a browser of a staff member who holds these permissions."""
    user = User.objects.create_user("ada", is_staff=True)
    user.user_permissions.set(Permission.objects.filter(codename__in=permissions))
    client = Client()
    client.force_login(user)
    return client


@pytest.fixture
def uncertain() -> Message:
    """A message whose worker was lost after the final dot."""
    message = QueuedMessageFactory.create(subject=f"Booking {SCRIPT}")
    now = database_now()
    OutboundState.objects.filter(message=message).delete()
    message.deliveries.update(status=DeliveryStatus.UNCERTAIN)
    message.status = MessageStatus.UNCERTAIN
    message.save()
    Attempt.objects.create(
        message=message,
        tenant=message.tenant,
        n=1,
        provider=Provider.SMTP,
        claim_token="8c2f6b1e-5a0d-4c39-9a43-0b7a5c3e1d11",
        claimed_at=now,
        phase=AttemptPhase.AWAITING_REPLY,
        from_address=message.from_address or "",
        finished_at=now,
        result=AttemptResult.UNCERTAIN,
        code="transport_timeout",
        detail=f"no reply {SCRIPT}",
    )
    return message


def page_of(message: Message) -> str:
    return reverse("admin:mailboxes_message_change", args=(message.pk,))


def settle(client: Client, message: Message, **answer: str) -> int:
    where = reverse("admin:mailboxes_message_resolve", args=(message.pk,))
    return client.post(where, answer).status_code


def test_the_page_shows_deliveries_attempts_and_the_two_answers(
    uncertain: Message,
) -> None:
    client = visitor("view_message", "resolve_message")

    page = client.get(page_of(uncertain)).content.decode()

    for text in (
        uncertain.public_id,
        "jo@example.net",
        "the final dot was written, no reply had come",
        "transport_timeout",
        "It was sent",
        "It was not sent",
    ):
        assert text in page
    assert SCRIPT not in page
    assert "Booking &lt;script&gt;" in page


def test_the_page_is_also_under_the_id_that_the_api_shows(uncertain: Message) -> None:
    url = f"/admin/mailboxes/message/{uncertain.public_id}/change/"

    answer = visitor("view_message").get(url)

    assert answer.status_code == 200
    assert answer.context["message"] == uncertain


def test_a_settled_message_offers_no_answer(uncertain: Message) -> None:
    Delivery.objects.update(status=DeliveryStatus.SUBMITTED)

    page = visitor("view_message", "resolve_message").get(page_of(uncertain))

    assert "nothing to settle" in page.content.decode()
    assert "It was sent" not in page.content.decode()


@pytest.mark.parametrize(
    ("outcome", "delivery", "message", "event"),
    [
        ("sent", "submitted", "submitted", "message.sent"),
        ("not_sent", "failed", "failed", "message.failed"),
    ],
)
def test_an_answer_with_its_reason_settles_the_send(
    uncertain: Message, outcome: str, delivery: str, message: str, event: str
) -> None:
    client = visitor("view_message", "resolve_message")

    assert settle(client, uncertain, outcome=outcome, note="the relay's log") == 302

    uncertain.refresh_from_db()
    assert uncertain.status == message
    assert [d.status for d in uncertain.deliveries.all()] == [delivery]
    assert Event.objects.filter(type=event).count() == 1
    audit = AuditRow.objects.get(action="message.resolve")
    assert audit.actor_user_id == str(User.objects.get().pk)
    assert audit.details is not None
    assert (audit.details["outcome"], audit.details["note"]) == (
        outcome,
        "the relay's log",
    )


def test_a_reason_that_the_database_could_not_store_is_stored_without_it(
    uncertain: Message,
) -> None:
    client = visitor("view_message", "resolve_message")

    assert settle(client, uncertain, outcome="sent", note="the\x00 log") == 302

    audit = AuditRow.objects.get(action="message.resolve")
    assert audit.details is not None
    assert audit.details["note"] == "the log"


def test_the_second_of_two_answers_changes_nothing_and_says_so(
    uncertain: Message,
) -> None:
    client = visitor("view_message", "resolve_message")
    settle(client, uncertain, outcome="sent", note="log")

    settle(client, uncertain, outcome="not_sent", note="log")

    assert "Nothing was changed" in client.get(page_of(uncertain)).content.decode()
    uncertain.refresh_from_db()
    assert uncertain.status == MessageStatus.SUBMITTED
    assert AuditRow.objects.count() == 1


@pytest.mark.parametrize(
    "answer",
    [{"outcome": "sent"}, {"outcome": "sent", "note": "  "}, {"note": "log"}, {}],
)
def test_an_answer_needs_an_outcome_and_a_reason(
    uncertain: Message, answer: dict[str, str]
) -> None:
    client = visitor("view_message", "resolve_message")

    assert settle(client, uncertain, **answer) == 302

    assert "say how you know" in client.get(page_of(uncertain)).content.decode()
    uncertain.refresh_from_db()
    assert uncertain.status == MessageStatus.UNCERTAIN


def test_who_may_only_look_is_told_so_and_cannot_settle(uncertain: Message) -> None:
    client = visitor("view_message")

    assert "that needs the role" in client.get(page_of(uncertain)).content.decode()
    assert settle(client, uncertain, outcome="sent", note="log") == 403
    uncertain.refresh_from_db()
    assert uncertain.status == MessageStatus.UNCERTAIN


def test_looking_at_the_answers_address_settles_nothing(uncertain: Message) -> None:
    where = reverse("admin:mailboxes_message_resolve", args=(uncertain.pk,))

    answer = visitor("view_message", "resolve_message").get(
        where, {"outcome": "sent", "note": "log"}
    )

    assert answer.status_code == 405
    uncertain.refresh_from_db()
    assert uncertain.status == MessageStatus.UNCERTAIN


def test_a_stranger_is_sent_to_log_in(uncertain: Message, client: Client) -> None:
    assert settle(client, uncertain, outcome="sent", note="log") == 302

    uncertain.refresh_from_db()
    assert uncertain.status == MessageStatus.UNCERTAIN


def test_the_form_carries_a_token_against_forged_posts(uncertain: Message) -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(User.objects.create_superuser("ada"))

    assert settle(client, uncertain, outcome="sent", note="log") == 403
    assert "csrfmiddlewaretoken" in client.get(page_of(uncertain)).content.decode()


def test_no_form_saves_a_message_even_for_a_superuser(uncertain: Message) -> None:
    client = Client()
    client.force_login(User.objects.create_superuser("ada"))
    before = Message.objects.values().get()

    assert client.post(page_of(uncertain), {"subject": "x"}).status_code == 403
    delete = reverse("admin:mailboxes_message_delete", args=(uncertain.pk,))
    assert client.post(delete, {"post": "yes"}).status_code == 403
    add = reverse("admin:mailboxes_message_add")
    assert client.post(add, {"subject": "x"}).status_code == 403

    assert Message.objects.values().get() == before


@pytest.mark.parametrize("by", ["id", "sender", "recipient", "message-id", "key"])
def test_a_pasted_value_finds_its_message_and_no_other(by: str) -> None:
    wanted = QueuedMessageFactory.create(recipients=("jo@example.net",))
    MessageFactory.create()
    QueuedMessageFactory.create(recipients=("al@example.net",))
    LedgerEntry.objects.create(
        identity_id=wanted.identity_id,
        key_hash=key_hash_of("Booking-2291"),
        tenant_id=wanted.tenant_id,
        fingerprint="0" * 64,
        operation="send",
        message_id=wanted.public_id,
        response={},
    )
    pasted = {
        "id": f" {wanted.public_id} ",
        "sender": wanted.from_address or "",
        "recipient": "jo@example.net",
        "message-id": f"<{wanted.rfc_message_id}>",
        "key": "Booking-2291",
    }[by]

    page = visitor("view_message").get(
        reverse("admin:mailboxes_message_changelist"), {"q": pasted}
    )

    found = [row.public_id for row in page.context["cl"].result_list]
    assert found == [wanted.public_id]


def test_a_list_costs_the_same_few_queries_however_long(
    django_assert_max_num_queries: object,
) -> None:
    MessageFactory.create_batch(60)
    client = visitor("view_message")

    with django_assert_max_num_queries(8):  # type: ignore[operator]  # a fixture
        page = client.get(reverse("admin:mailboxes_message_changelist"))

    assert page.status_code == 200
    assert len(page.context["cl"].result_list) == 50


@pytest.mark.parametrize(
    "model",
    [
        "mailboxes_tenant",
        "mailboxes_identity",
        "mailboxes_address",
        "mailboxes_apikey",
        "mailboxes_auditrow",
        "mailboxes_alert",
        "domains_domain",
        "mailboxes_message",
    ],
)
def test_every_list_and_its_search_opens(model: str, uncertain: Message) -> None:
    client = Client()
    client.force_login(User.objects.create_superuser("ada"))

    for query in ({}, {"q": "nothing"}):
        page = client.get(reverse(f"admin:{model}_changelist"), query)
        assert page.status_code == 200


def test_the_audit_list_tells_who_settled_a_send_and_why(uncertain: Message) -> None:
    # Given a send that a person has settled with a reason
    client = visitor("view_message", "resolve_message", "view_auditrow")
    settle(client, uncertain, outcome="sent", note="the relay's log has it")

    page = client.get(reverse("admin:mailboxes_auditrow_changelist")).content.decode()

    assert "sent · the relay&#x27;s log has it" in page
    assert f"user {User.objects.get().pk}" in page


def test_an_empty_list_invites_nobody_to_create_a_record(uncertain: Message) -> None:
    client = visitor("view_alert")

    page = client.get(reverse("admin:mailboxes_alert_changelist")).content.decode()

    assert "There is no alert yet." in page
    assert "Create" not in page


def test_no_secret_is_on_a_page(uncertain: Message) -> None:
    client = Client()
    client.force_login(User.objects.create_superuser("ada"))
    domain = uncertain.identity.addresses.get().domain
    domain.smtp_sealed = "pm1.sealed"
    domain.save()

    page = client.get(reverse("admin:domains_domain_change", args=(domain.id,)))

    assert domain.name in page.content.decode()
    assert "pm1.sealed" not in page.content.decode()
