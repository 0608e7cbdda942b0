"""GET …/threads, GET and PATCH …/threads/{id}."""

from datetime import timedelta
from typing import Any

import pytest

from core.clock import database_now
from core.ids import new_id
from mailboxes.key_services import create_key
from mailboxes.models import AuditRow, Identity, Label, Message, Thread
from mailboxes.scopes import Scope
from outbound.api import threads
from outbound.api.includes import included
from outbound.api.schemas import ThreadOut, ThreadPage, ThreadWithMessages
from tests.factories import AddressFactory
from tests.support.answering import counted, received
from tests.support.api import ApiClient, booking, code_of, paths_of

pytestmark = pytest.mark.django_db


def threads_path(api: ApiClient) -> str:
    return f"/v1/identities/{api.identity_id}/threads"


def path_of(api: ApiClient, thread: Thread) -> str:
    return f"{threads_path(api)}/{thread.public_id}"


def a_thread(identity: Identity, mails: int = 1, **changes: Any) -> Thread:
    """Return a thread with so many received messages, a minute apart."""
    first = received(identity, **changes)
    for n in range(1, mails):
        at = first.received_at + timedelta(minutes=n)
        received(identity, first.thread, received_at=at, **changes)
    return counted(first.thread)


def label(message: Message, *words: str) -> None:
    for word in words:
        Label.objects.create(message=message, tenant=message.tenant, label=word)


def ids(response: Any) -> list[str]:
    assert response.status_code == 200, response.content
    return [row["id"] for row in response.json()["data"]]


def test_a_sent_thread_is_shown_with_what_its_message_says(api: ApiClient) -> None:
    sent = api.send(booking(labels=["b", "a"])).json()

    page = api.get(threads_path(api)).json()

    ThreadPage.model_validate(page)
    assert page == {
        "data": [
            {
                "id": sent["thread_id"],
                "subject": "Your booking",
                "snippet": "See you on Friday.",
                "labels": ["a", "b"],
                "archived": False,
                "participants": [{"address": "jo@example.net", "name": None}],
                "message_count": 1,
                "unread_count": 0,
                "first_at": sent["sent_at"],
                "last_at": sent["sent_at"],
                "last_inbound_at": None,
                "last_direction": "outbound",
                "hold": None,
            }
        ],
        "next_cursor": None,
    }


def test_mail_that_came_in_is_counted_and_names_the_direction(
    api: ApiClient, identity: Identity
) -> None:
    thread = a_thread(identity, mails=2, snippet="Is Friday fine?")

    shown = api.get(path_of(api, thread)).json()

    ThreadWithMessages.model_validate(shown)
    assert (shown["message_count"], shown["unread_count"]) == (2, 2)
    assert shown["last_direction"] == "inbound"
    assert shown["last_at"] == shown["last_inbound_at"] > shown["first_at"]
    assert shown["snippet"] == "Is Friday fine?"


def test_threads_are_listed_by_their_newest_message(
    api: ApiClient, identity: Identity
) -> None:
    made = [a_thread(identity) for _ in range(5)]
    now = database_now()
    for hours, thread in zip([3, 1, 5, 2, 4], made, strict=True):
        Thread.objects.filter(key=thread.key).update(last_at=now - timedelta(0, hours))

    seen: list[str] = []
    cursor, pages = "", 0
    while pages == 0 or cursor:
        page = api.get(f"{threads_path(api)}?limit=2{cursor}")
        seen += ids(page)
        following = page.json()["next_cursor"]
        cursor = f"&cursor={following}" if following else ""
        pages += 1

    assert seen == [made[n].public_id for n in (1, 3, 0, 4, 2)]
    assert pages == 3


@pytest.fixture
def filed(identity: Identity) -> dict[str, Thread]:
    """Three threads: one read and archived, one unread, one that we wrote to last."""
    read = a_thread(identity, read=True)
    Thread.objects.filter(key=read.key).update(archived=True)
    unread = a_thread(identity)
    answered = a_thread(identity, read=True)
    later = answered.last_at + timedelta(hours=2)
    received(
        identity,
        answered,
        direction="outbound",
        status="submitted",
        kind="transactional",
        received_at=later,
    )
    counted(answered)
    message = unread.messages.get()
    label(message, "urgent")
    return {"read": read, "unread": unread, "answered": answered}


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("", ["answered", "unread", "read"]),
        ("label=urgent", ["unread"]),
        ("label=nothing", []),
        ("is_unread=true", ["unread"]),
        ("is_unread=false", ["answered", "read"]),
        ("direction=inbound", ["unread", "read"]),
        ("direction=outbound", ["answered"]),
        ("archived=true", ["read"]),
        ("archived=false", ["answered", "unread"]),
        ("after=2100-01-01T00:00:00Z", []),
        ("before=2100-01-01T00:00:00Z", ["answered", "unread", "read"]),
        ("before=2000-01-01T00:00:00%2B02:00", []),
        ("archived=false&direction=inbound&label=urgent", ["unread"]),
    ],
)
def test_threads_are_found_by_what_they_are(
    api: ApiClient, filed: dict[str, Thread], query: str, found: list[str]
) -> None:
    response = api.get(f"{threads_path(api)}?{query}")

    assert ids(response) == [filed[name].public_id for name in found]


def test_after_and_before_leave_out_their_own_instant(
    api: ApiClient, filed: dict[str, Thread]
) -> None:
    at = api.get(path_of(api, filed["answered"])).json()["last_at"]

    assert ids(api.get(f"{threads_path(api)}?after={at}")) == []
    assert filed["answered"].public_id not in ids(
        api.get(f"{threads_path(api)}?before={at}")
    )


@pytest.mark.parametrize(
    ("query", "path"),
    [
        ("label=A", "label"),
        ("label=", "label"),
        ("is_unread=yes", "is_unread"),
        ("direction=up", "direction"),
        ("after=yesterday", "after"),
        ("before=2026-01-01", "before"),
        ("archived=1", "archived"),
        ("status=sent", "status"),
    ],
)
def test_a_filter_of_another_form_is_refused_with_its_name(
    api: ApiClient, query: str, path: str
) -> None:
    response = api.get(f"{threads_path(api)}?{query}")

    assert (code_of(response), paths_of(response)) == ("invalid_request", [path])


def test_a_cursor_of_other_filters_is_refused(
    api: ApiClient, filed: dict[str, Thread]
) -> None:
    cursor = api.get(f"{threads_path(api)}?limit=1").json()["next_cursor"]

    response = api.get(f"{threads_path(api)}?archived=false&cursor={cursor}")

    assert paths_of(response) == ["cursor"]


def test_the_messages_of_a_thread_come_oldest_first_page_by_page(
    api: ApiClient, identity: Identity
) -> None:
    thread = a_thread(identity, mails=25)
    path = path_of(api, thread)
    sent = list(
        thread.messages.order_by("received_at").values_list("public_id", flat=True)
    )

    first = api.get(path).json()
    # another page size is no other list
    second = api.get(f"{path}?messages_limit=3&cursor={first['next_cursor']}").json()
    third = api.get(f"{path}?messages_limit=2&cursor={second['next_cursor']}").json()

    for page in (first, second, third):
        ThreadWithMessages.model_validate(page)
        assert page["id"] == thread.public_id
    pages = [[m["id"] for m in page["messages"]] for page in (first, second, third)]
    assert pages == [sent[:20], sent[20:23], sent[23:]]
    assert third["next_cursor"] is None


@pytest.mark.parametrize(
    ("query", "path"),
    [
        ("messages_limit=0", "messages_limit"),
        ("messages_limit=101", "messages_limit"),
        ("limit=2", "limit"),
        ("cursor=c_x", "cursor"),
    ],
)
def test_a_page_of_messages_that_cannot_be_is_refused(
    api: ApiClient, identity: Identity, query: str, path: str
) -> None:
    response = api.get(f"{path_of(api, a_thread(identity))}?{query}")

    assert (code_of(response), paths_of(response)) == ("invalid_request", [path])


@pytest.mark.parametrize("status", ["hidden", "throttled", "quarantined"])
def test_a_thread_of_unseen_mail_alone_is_not_there(
    api: ApiClient, identity: Identity, status: str
) -> None:
    thread = a_thread(identity, status=status)

    assert ids(api.get(threads_path(api))) == []
    for answer in (
        api.get(path_of(api, thread)),
        api.patch(path_of(api, thread), {"read": True}),
    ):
        assert (answer.status_code, code_of(answer)) == (404, "thread_not_found")


@pytest.mark.parametrize("status", ["hidden", "throttled", "quarantined"])
def test_unseen_mail_shows_in_nothing_of_its_thread(
    api: ApiClient, identity: Identity, status: str
) -> None:
    thread = a_thread(identity, snippet="seen")
    later = thread.last_at + timedelta(minutes=5)
    unseen = received(
        identity, thread, status=status, snippet="unseen", received_at=later
    )
    label(unseen, "secret")
    counted(thread)

    shown = api.get(path_of(api, thread)).json()
    api.patch(path_of(api, thread), {"read": True, "labels_add": ["new"]})
    unseen.refresh_from_db()

    assert (shown["snippet"], shown["labels"]) == ("seen", [])
    assert unseen.public_id not in [m["id"] for m in shown["messages"]]
    assert ids(api.get(f"{threads_path(api)}?label=secret")) == []
    assert unseen.read is False
    assert list(unseen.labels.values_list("label", flat=True)) == ["secret"]


def test_a_thread_is_filed_by_filing_each_of_its_messages(
    api: ApiClient, identity: Identity
) -> None:
    thread = a_thread(identity, mails=3)
    path = path_of(api, thread)
    label(thread.messages.order_by("key")[0], "old")

    filed = api.patch(
        path,
        {
            "labels_add": ["urgent", "urgent", "mine"],
            "labels_remove": ["old", "never"],
            "read": True,
            "archived": True,
        },
    )

    ThreadOut.model_validate(filed.json())
    assert filed.status_code == 200
    assert filed.json()["labels"] == ["mine", "urgent"]
    assert filed.json()["unread_count"] == 0
    assert filed.json()["archived"] is True
    messages = api.get(path).json()["messages"]
    assert [m["labels"] for m in messages] == [["mine", "urgent"]] * 3
    # and back
    again = api.patch(path, {"read": False, "archived": False}).json()
    assert (again["unread_count"], again["archived"]) == (3, False)
    assert again["labels"] == ["mine", "urgent"]


def test_our_own_messages_are_never_unread(api: ApiClient) -> None:
    thread_id = api.send(booking()).json()["thread_id"]

    filed = api.patch(f"{threads_path(api)}/{thread_id}", {"read": False}).json()

    assert filed["unread_count"] == 0


def test_a_thread_whose_message_is_full_of_labels_stays_as_it_is(
    api: ApiClient, identity: Identity
) -> None:
    thread = a_thread(identity, mails=2)
    label(thread.messages.order_by("key")[1], *(f"l{n}" for n in range(64)))

    refused = api.patch(path_of(api, thread), {"labels_add": ["one"], "read": True})

    assert (code_of(refused), paths_of(refused)) == ("invalid_request", ["labels_add"])
    assert Label.objects.count() == 64
    thread.refresh_from_db()
    assert thread.unread_count == 2
    # with room made in the same call it fits
    swapped = {"labels_add": ["one"], "labels_remove": ["l0"]}
    assert api.patch(path_of(api, thread), swapped).status_code == 200


def test_filing_a_thread_is_audited_without_a_word_of_it(
    api: ApiClient, identity: Identity
) -> None:
    thread = a_thread(identity)

    api.patch(path_of(api, thread), {"labels_add": ["private"], "archived": True})
    api.patch(path_of(api, thread), {"labels_add": ["private"], "archived": True})

    row = AuditRow.objects.get(action="thread.file")  # one: the second changed nothing
    assert (row.target_id, row.actor_key_id) == (
        thread.public_id,
        api.get("/v1/me").json()["id"],
    )
    assert row.details == {
        "labels_added": 1,
        "labels_removed": 0,
        "read": None,
        "archived": True,
    }


@pytest.mark.parametrize(
    ("body", "paths"),
    [
        ({"labels_add": ["A"]}, ["labels_add[0]"]),
        ({"labels_add": ["a", "b\n"]}, ["labels_add[1]"]),
        ({"labels_add": "a"}, ["labels_add"]),
        ({"labels_add": ["a" * 65]}, ["labels_add[0]"]),
        ({"labels_add": [f"l{n}" for n in range(65)]}, ["labels_add"]),
        ({"labels_remove": [""]}, ["labels_remove[0]"]),
        ({"labels_add": ["a"], "labels_remove": ["a"]}, ["labels_remove"]),
        ({"read": "true"}, ["read"]),
        ({"archived": 1}, ["archived"]),
        ({"subject": "x"}, ["subject"]),
    ],
)
def test_a_change_of_another_form_is_refused_with_its_path(
    api: ApiClient, identity: Identity, body: dict[str, Any], paths: list[str]
) -> None:
    response = api.patch(path_of(api, a_thread(identity)), body)

    assert (code_of(response), paths_of(response)) == ("invalid_request", paths)
    assert not Label.objects.exists()


@pytest.mark.parametrize("body", [{}, {"read": None, "archived": None}])
def test_a_change_of_nothing_changes_nothing(
    api: ApiClient, identity: Identity, body: dict[str, Any]
) -> None:
    thread = a_thread(identity)
    before = api.get(path_of(api, thread)).json()

    after = api.patch(path_of(api, thread), body)

    assert after.status_code == 200
    assert {**before, **after.json()} == before
    assert not AuditRow.objects.filter(action="thread.file").exists()


def without_request_id(response: Any) -> dict[str, Any]:
    error = response.json()["error"]
    error.pop("request_id")
    return {"status": response.status_code, **error}


def test_a_thread_out_of_reach_is_answered_like_one_that_never_was(
    api: ApiClient, identity: Identity
) -> None:
    foreign = a_thread(AddressFactory.create().identity)
    sibling = a_thread(AddressFactory.create(identity__tenant=identity.tenant).identity)
    never = f"{threads_path(api)}/{new_id('thr')}"
    bad = {"labels_add": ["A"], "nonsense": 1}
    expected = without_request_id(api.get(never))

    for thread in (foreign.public_id, sibling.public_id, "x", "thr_", "%00"):
        path = f"{threads_path(api)}/{thread}"
        for answer in (api.get(path), api.patch(path, {}), api.patch(path, bad)):
            assert without_request_id(answer) == expected

    assert expected["code"] == "thread_not_found"


def test_reading_threads_and_filing_them_need_their_scopes(
    identity: Identity,
) -> None:
    thread = a_thread(identity)
    reader, writer = (
        ApiClient(
            create_key(name="k", tenant=identity.tenant, permissions=[scope]).secret,
            identity.id,
        )
        for scope in (Scope.MESSAGES_READ, Scope.MESSAGES_WRITE)
    )

    assert reader.get(path_of(reader, thread)).status_code == 200
    assert code_of(reader.patch(path_of(reader, thread), {})) == "permission_denied"
    assert code_of(writer.get(threads_path(writer))) == "permission_denied"
    assert writer.patch(path_of(writer, thread), {}).status_code == 200


def test_a_thread_shows_of_its_messages_what_is_to_be_included(
    api: ApiClient, identity: Identity
) -> None:
    sent = api.send(booking(html="<p>Hi<script>x()</script></p>")).json()
    thread = Thread.objects.get()
    received(identity, thread, text="Fine.\n> Hi", html_sanitized="<p>Fine.</p>")
    counted(thread)

    plain = api.get(path_of(api, thread)).json()
    shown = api.get(f"{path_of(api, thread)}?include=html,quoted,headers").json()

    ThreadWithMessages.model_validate(shown)
    assert not {"html", "text", "headers"} & plain["messages"][0].keys()
    assert [m["html"] for m in shown["messages"]] == ["<p>Hi</p>", "<p>Fine.</p>"]
    assert shown["messages"][1]["text"] == "Fine.\n> Hi"
    named = [h["name"] for h in shown["messages"][0]["headers"]]
    assert sent["id"] == shown["messages"][0]["id"]
    assert "Subject" in named


def test_a_page_with_bodies_is_never_longer_than_twenty(
    api: ApiClient, identity: Identity
) -> None:
    thread = a_thread(identity, mails=22)
    path = f"{path_of(api, thread)}?include=quoted&messages_limit=100"

    first = api.get(path).json()
    second = api.get(f"{path}&cursor={first['next_cursor']}").json()

    assert [len(page["messages"]) for page in (first, second)] == [20, 2]


def test_copies_that_take_long_are_a_503_and_a_repeat_goes_on(
    api: ApiClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    thread_id = api.send(booking(html="<p>0</p>"), key="k0").json()["thread_id"]
    for n in (1, 2):
        into = booking(html=f"<p>{n}</p>", thread_id=thread_id)
        Thread.objects.update(lock_owner=None)
        assert api.send(into, key=f"k{n}").status_code == 202
    now = [0.0]

    def slow(message: Any, query: Any) -> dict[str, Any]:
        if message.html_sanitized is None:  # each copy takes 8 s
            now[0] += 8
        return included(message, query)

    monkeypatch.setattr(threads, "included", slow)
    monkeypatch.setattr(threads, "elapsed_clock", lambda: now[0])
    path = f"{threads_path(api)}/{thread_id}?include=html"

    first, second = api.get(path), api.get(path)

    assert (first.status_code, code_of(first)) == (503, "unavailable")
    assert first.json()["error"]["retryable"] is True
    shown = [m["html"] for m in second.json()["messages"]]
    assert shown == ["<p>0</p>", "<p>1</p>", "<p>2</p>"]


@pytest.mark.parametrize("include", ["bodies", "", "html,"])
def test_an_include_that_is_none_is_refused(
    api: ApiClient, identity: Identity, include: str
) -> None:
    response = api.get(f"{path_of(api, a_thread(identity))}?include={include}")

    assert (code_of(response), paths_of(response)) == ("invalid_request", ["include"])
