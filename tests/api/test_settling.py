"""Many sends in doubt: found, shown first, then settled by one answer."""

import re
from datetime import timedelta
from html import unescape
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from core.clock import database_now
from delivery.models import Delivery
from delivery.services import apply_event, resolve
from delivery.statuses import DeliveryKind
from mailboxes.models import AuditRow, Event, Identity, Message
from quota.models import Allowance
from staff.models import Settlement
from staff.settling import services
from tests.factories import AddressFactory
from tests.services.conftest import assert_units_add_up
from tests.support.doubts import A, B, doubts, stored, told
from tests.support.staff import browser

pytestmark = pytest.mark.django_db

QUEUE = "/admin/staff/settlement/"


def prepared(client: Client, **posted: object) -> Settlement:
    """Ask for a preview, and return the settlement that it shows."""
    seen_at = database_now().isoformat()
    answer = client.post(QUEUE, {"which": "all", "seen_at": seen_at, **posted})
    assert answer.status_code == 302, answer.content
    return Settlement.objects.get(id=answer["Location"].split("/")[-3])


def page_of(settlement: Settlement) -> str:
    return reverse("admin:staff_settlement_change", args=(settlement.id,))


def step(settlement: Settlement, name: str) -> str:
    return reverse(f"admin:staff_settlement_{name}", args=(settlement.id,))


def words(answer: Any) -> str:
    """Return the text of a page, in one line."""
    text = re.sub(r"<[^>]+>", " ", answer.content.decode())
    return unescape(re.sub(r"\s+", " ", text))


def run(client: Client, settlement: Settlement, outcome: str = "not_sent") -> str:
    """Give the answer and go on to the end; return what the last page says."""
    given = {"outcome": outcome, "reason": "the relay's log says so"}
    assert client.post(step(settlement, "start"), given).status_code == 302
    for _ in range(100):
        answer = client.post(step(settlement, "go_on"), headers={"HX-Request": "true"})
        assert answer.status_code == 200
        settlement.refresh_from_db()
        if settlement.state == "done":
            return words(answer)
    raise AssertionError("it does not end")


@pytest.mark.parametrize(
    ("outcome", "status", "event", "charged"),
    [
        ("sent", "submitted", "message.sent", 45),
        ("not_sent", "failed", "message.failed", 0),
    ],
)
def test_all_that_a_filter_finds_is_settled_in_batches_by_one_answer(
    identity: Identity, outcome: str, status: str, event: str, charged: int
) -> None:
    messages = doubts(identity, 45)
    stranger = doubts(AddressFactory.create().identity, 1)[0]
    client = browser("support")

    settlement = prepared(client, tenant=identity.tenant.slug)
    said = run(client, settlement, outcome)

    assert "45 settled, 0 settled by events meanwhile, 0 changed" in said
    settled = Message.objects.filter(identity=identity)
    assert set(settled.values_list("status", "evidence")) == {(status, "person")}
    assert Event.objects.filter(type=event).count() == 45
    audited = AuditRow.objects.filter(action="message.resolve")
    assert audited.count() == 45
    user = client.session["_auth_user_id"]
    assert set(audited.values_list("actor_user_id", "details__note")) == {
        (user, f"the relay's log says so ({settlement.id})")
    }
    assert Allowance.objects.get(tenant=identity.tenant_id).used == charged
    assert_units_add_up(messages[0])
    stranger.refresh_from_db()
    assert stranger.status == "uncertain"


def test_a_preview_says_what_would_be_done_and_does_nothing(identity: Identity) -> None:
    early, late, gone = doubts(identity, 3, recipients=[A, B])
    Delivery.objects.filter(message=early).update(
        updated_at=database_now() - timedelta(minutes=5)
    )
    client = browser("support")
    settlement = prepared(client)
    resolve(gone.public_id, outcome="sent")

    page = client.get(page_of(settlement))

    said = words(page)
    assert "2 sends in doubt, 4 recipients" in said
    assert "1 of 3 has been settled meanwhile" in said
    assert "4 units are charged" in said
    assert "needs a new key" in said
    domain = (late.from_address or "").partition("@")[2]
    assert f"{domain} 2" in said
    times = re.findall(r"<td>(\d{4}-\d\d-\d\d \d\d:\d\d)</td>", page.content.decode())
    assert len(times) == 2
    assert Message.objects.filter(status="uncertain").count() == 2


def test_only_what_is_ticked_is_settled(identity: Identity) -> None:
    ticked, other = doubts(identity, 2)
    client = browser("support")

    settlement = prepared(
        client, which="ticked", message=[ticked.public_id, "msg_x", "\x00"]
    )
    run(client, settlement)

    assert not Message.objects.filter(key=ticked.key, status="uncertain").exists()
    assert Message.objects.filter(key=other.key, status="uncertain").exists()


@pytest.mark.parametrize("posted", [{"which": "ticked"}, {"tenant": "nobody"}])
def test_nothing_ticked_or_found_makes_no_settlement(
    identity: Identity, posted: dict[str, str]
) -> None:
    doubts(identity, 1)

    answer = browser("support").post(QUEUE, {"which": "all", **posted}, follow=True)

    assert "Tick the sends that the answer is for first." in words(answer)
    assert not Settlement.objects.exists()


def test_what_events_and_others_settled_meanwhile_is_counted_and_left_alone(
    identity: Identity,
) -> None:
    # Given a settlement of four sends, of which three are not what they were
    told_of, resolved, doubted_anew, plain = doubts(identity, 4)
    client = browser("support")
    settlement = prepared(client)
    apply_event(*stored(told(told_of, DeliveryKind.DELIVERED)))
    resolve(resolved.public_id, outcome="sent")
    Delivery.objects.filter(message=doubted_anew).update(
        updated_at=database_now() + timedelta(seconds=1)
    )

    # When it runs
    said = run(client, settlement, "not_sent")

    # Then each is counted for what it is, and is linked to
    assert "1 settled, 1 settled by events meanwhile, 2 changed: look" in said
    assert settlement.overtaken == [told_of.key]
    assert settlement.changed == [resolved.key, doubted_anew.key]
    past = words(client.get(reverse("admin:staff_settlement_past")))
    assert "were not sent 1 of 4 settled, 1 by events, 2 changed" in past
    page = client.get(page_of(settlement)).content.decode()
    for message in (told_of, resolved, doubted_anew, plain):
        assert f"/admin/mailboxes/message/{message.key}/change/" in page
    statuses = dict(Message.objects.values_list("key", "status"))
    assert statuses == {
        told_of.key: "delivered",
        resolved.key: "submitted",
        doubted_anew.key: "uncertain",
        plain.key: "failed",
    }


def test_what_came_into_doubt_after_the_list_was_shown_is_not_meant(
    identity: Identity,
) -> None:
    doubts(identity, 1)
    seen_at = database_now()
    later = doubts(identity, 1)[0]
    Delivery.objects.filter(message=later).update(
        updated_at=seen_at + timedelta(milliseconds=5)
    )

    settlement = prepared(browser("support"), seen_at=seen_at.isoformat())

    assert len(settlement.keys) == 1
    assert later.key not in settlement.keys


def test_a_crash_between_two_sends_loses_and_doubles_none(
    identity: Identity, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a settlement whose process dies at the third send
    messages = doubts(identity, 5)
    client = browser("support")
    settlement = prepared(client)
    given = {"outcome": "sent", "reason": "seen"}
    client.post(step(settlement, "start"), given)
    calls = []

    def breaks(*args: Any, **kwargs: Any) -> Message:
        calls.append(args)
        if len(calls) == 3:
            raise RuntimeError("killed")
        return resolve(*args, **kwargs)

    with monkeypatch.context() as patched:
        patched.setattr("staff.settling.services.resolve", breaks)
        with pytest.raises(RuntimeError):
            client.post(step(settlement, "go_on"))

    # When somebody opens the page again and goes on, without any script
    settlement.refresh_from_db()
    assert (settlement.settled, settlement.cursor) == (2, messages[1].key)
    page = client.get(page_of(settlement))
    answer = client.post(step(settlement, "go_on"))

    # Then the rest is settled, each once
    assert "2 of 5 looked at" in words(page)
    assert "Go on" in words(page)
    assert answer["Location"] == page_of(settlement)
    settlement.refresh_from_db()
    assert (settlement.state, settlement.settled) == ("done", 5)
    assert AuditRow.objects.filter(action="message.resolve").count() == 5
    assert Allowance.objects.get(tenant=identity.tenant_id).used == 5


@pytest.mark.parametrize(
    "given",
    [
        {"outcome": "sent", "reason": " "},
        {"outcome": "sent", "reason": "x" * 501},
        {"outcome": "perhaps", "reason": "seen"},
        {"reason": "seen"},
    ],
)
def test_without_an_answer_and_a_reason_nothing_starts(
    identity: Identity, given: dict[str, str]
) -> None:
    doubts(identity, 1)
    client = browser("support")
    settlement = prepared(client)

    answer = client.post(step(settlement, "start"), given)
    client.post(step(settlement, "go_on"))

    assert answer.status_code == 400
    assert 'role="alert"' in answer.content.decode()
    assert Message.objects.get().status == "uncertain"


def test_a_second_answer_changes_nothing(identity: Identity) -> None:
    doubts(identity, 1)
    client = browser("support")
    settlement = prepared(client)
    client.post(step(settlement, "start"), {"outcome": "sent", "reason": "one"})

    client.post(step(settlement, "start"), {"outcome": "not_sent", "reason": "two"})

    settlement.refresh_from_db()
    assert (settlement.outcome, settlement.reason) == ("sent", "one")


def test_a_viewer_looks_and_may_settle_nothing(identity: Identity) -> None:
    doubts(identity, 2)
    of_support = prepared(browser("support"))
    viewer = browser("viewer")

    page = viewer.get(QUEUE)
    preview = viewer.get(page_of(of_support))
    forced = [
        viewer.post(QUEUE, {"which": "all"}),
        viewer.post(
            step(of_support, "start"), {"outcome": "sent", "reason": "because"}
        ),
        viewer.post(step(of_support, "go_on")),
    ]

    assert "2 sends in doubt" in words(page)
    assert 'name="which"' not in page.content.decode()
    assert "needs the role “support”" in words(preview)
    assert 'name="outcome"' not in preview.content.decode()
    assert [answer.status_code for answer in forced] == [403, 403, 403]
    assert Settlement.objects.count() == 1
    assert set(Message.objects.values_list("status")) == {("uncertain",)}


@pytest.mark.parametrize("name", ["start", "go_on"])
def test_nothing_is_done_by_get_and_what_is_not_there_is_not_found(
    identity: Identity, name: str
) -> None:
    doubts(identity, 1)
    client = browser("support")
    settlement = prepared(client)
    settlement_path = step(settlement, name)
    elsewhere = settlement_path.replace(settlement.id, "stl_" + "0" * 26)

    assert client.get(settlement_path).status_code == 405
    assert client.post(elsewhere).status_code == 404
    assert client.get(page_of(settlement).replace("stl_", "st")).status_code == 404


def test_each_send_of_a_settlement_costs_the_same_few_statements(
    identity: Identity,
) -> None:
    client = browser("support")
    counts = []
    for number in (2, 12):
        doubts(identity, number)
        settlement = prepared(client)
        given = {"outcome": "sent", "reason": "seen"}
        client.post(step(settlement, "start"), given)
        with CaptureQueriesContext(connection) as captured:
            services.go_on(settlement.id)
        counts.append(len(captured))

    each = (counts[1] - counts[0]) / 10
    assert each <= 32


def test_a_preview_that_nobody_answers_is_forgotten_after_a_day(
    identity: Identity,
) -> None:
    doubts(identity, 1)
    client = browser("support")
    left, answered = prepared(client), prepared(client)
    client.post(step(answered, "start"), {"outcome": "sent", "reason": "seen"})
    Settlement.objects.update(created_at=database_now() - timedelta(days=2))

    fresh = prepared(client)

    assert client.get(page_of(left)).status_code == 404
    assert set(Settlement.objects.values_list("id", flat=True)) == {
        answered.id,
        fresh.id,
    }


def test_more_than_one_settlement_takes_say_so(
    identity: Identity, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("staff.settling.services.MOST", 2)
    doubts(identity, 3)
    client = browser("support")

    settlement = prepared(client)
    page = client.get(page_of(settlement))

    assert len(settlement.keys) == 2
    assert "These are the 2 oldest" in words(page)
