"""The feed over HTTP: whose events, which of them, from where on."""

from typing import Any

import pytest

from core.ids import new_id
from mailboxes.key_services import create_key
from mailboxes.models import Event, Identity
from mailboxes.scopes import Scope
from tests.factories import AddressFactory
from tests.support.api import ApiClient, code_of, paths_of
from tests.support.outbox import MESSAGE, happen, happen_to_tenant
from webhooks import outbox

pytestmark = pytest.mark.django_db

PATH = "/v1/events"
Json = dict[str, Any]


def page(client: ApiClient, query: str = "") -> Json:
    answer = client.get(f"{PATH}?{query}")
    assert answer.status_code == 200, answer.content
    found: Json = answer.json()
    return found


def ids(client: ApiClient, query: str = "") -> list[str]:
    return [event["id"] for event in page(client, query)["data"]]


def client_with(identity: Identity, *permissions: str, own: bool = False) -> ApiClient:
    """Return a client with a key of these scopes, for its tenant or one identity."""
    made = create_key(
        name="k",
        tenant=identity.tenant,
        identity=identity if own else None,
        permissions=[Scope(permission) for permission in permissions],
    )
    return ApiClient(made.secret, identity.id)


@pytest.fixture
def other(identity: Identity) -> Identity:
    """Another identity of the tenant."""
    found: Identity = AddressFactory.create(identity__tenant=identity.tenant).identity
    return found


@pytest.fixture
def stranger(db: None) -> Identity:
    """An identity of another tenant."""
    found: Identity = AddressFactory.create().identity
    return found


def test_events_come_as_they_were_stored_oldest_first(
    api: ApiClient, identity: Identity
) -> None:
    for _ in range(3):
        happen(identity)
    outbox.number_all()

    found = page(api)

    stored = Event.objects.order_by("position").values_list("payload", flat=True)
    assert found == {"data": list(stored), "next_cursor": None}
    assert [event["sequence"] for event in found["data"]] == [1, 2, 3]


def test_an_event_without_a_place_is_not_there_yet(
    api: ApiClient, identity: Identity
) -> None:
    event_id = happen(identity)

    assert ids(api) == []
    assert code_of(api.get(f"{PATH}?after_id={event_id}")) == "cursor_expired"


def test_each_level_sees_what_it_reaches(
    api: ApiClient,
    platform_api: ApiClient,
    identity: Identity,
    other: Identity,
    stranger: Identity,
) -> None:
    own, of_other, foreign = happen(identity), happen(other), happen(stranger)
    of_tenant = happen_to_tenant(identity.tenant)
    of_platform = happen_to_tenant(identity.tenant, "webhook.disabled")
    outbox.number_all()
    narrow = client_with(identity, "webhooks:read", "messages:read", own=True)

    assert ids(platform_api) == [own, of_other, foreign, of_tenant, of_platform]
    assert ids(api) == [own, of_other, of_tenant]
    assert ids(narrow) == [own]


def test_without_messages_read_nothing_of_mail_is_shown(identity: Identity) -> None:
    client = client_with(identity, "webhooks:read")
    happen(identity)
    warning = happen(identity, "quota.warning")
    outbox.number_all()

    refused = client.get(f"{PATH}?type=message.canceled")

    assert ids(client) == [warning]
    assert (refused.status_code, code_of(refused)) == (403, "permission_denied")
    assert refused.json()["error"]["details"]["required"] == [
        *("messages:read", "webhooks:read")
    ]


def test_webhooks_read_is_needed(identity: Identity) -> None:
    answer = client_with(identity, "messages:read").get(PATH)

    assert (answer.status_code, code_of(answer)) == (403, "permission_denied")
    assert ids(client_with(identity, "webhooks:manage", "messages:read")) == []


def test_filters_narrow_it(
    api: ApiClient, identity: Identity, other: Identity, stranger: Identity
) -> None:
    one = happen(identity)
    failed = happen(identity, "message.failed", message_id=new_id("msg"))
    blocked = happen(other, "suppression.created")
    summary = happen(other, "message.sent")
    happen(stranger)
    outbox.number_all()

    assert ids(api, "type=message.failed") == [failed]
    assert ids(api, f"identity_id={other.id}") == [blocked, summary]
    assert ids(api, f"identity_id={stranger.id}") == []
    assert ids(api, f"message_id={MESSAGE}") == [one, blocked, summary]
    assert ids(api, f"message_id={MESSAGE}&identity_id={identity.id}") == [one]
    assert ids(api, f"message_id={new_id('msg')}") == []
    assert ids(api, f"message_id={MESSAGE}&after_id={one}") == [blocked, summary]


def test_a_reader_resumes_after_any_event_that_it_may_see(
    api: ApiClient, identity: Identity
) -> None:
    seen = [happen(identity), happen(identity, "quota.warning"), happen(identity)]
    outbox.number_all()

    assert ids(api, f"after_id={seen[0]}") == seen[1:]
    assert ids(api, f"after_id={seen[1]}&type=message.canceled") == seen[2:]
    assert ids(api, f"after_id={seen[2]}") == []


def test_what_is_not_kept_or_not_in_reach_cannot_be_resumed_after(
    api: ApiClient, identity: Identity, stranger: Identity
) -> None:
    foreign = happen(stranger)
    outbox.number_all()

    answers = [api.get(f"{PATH}?after_id={one}") for one in (foreign, new_id("evt"))]

    for answer in answers:
        assert (answer.status_code, code_of(answer)) == (410, "cursor_expired")
    told = [answer.json()["error"] for answer in answers]
    for error in told:
        del error["request_id"]
    assert told[0] == told[1]


def test_a_cursor_pages_within_one_read(api: ApiClient, identity: Identity) -> None:
    seen = [happen(identity) for _ in range(5)]
    outbox.number_all()

    first = page(api, "limit=2")
    later = happen(identity)
    outbox.number_all()
    second = page(api, f"limit=3&cursor={first['next_cursor']}")
    third = page(api, f"cursor={second['next_cursor']}")
    elsewhere = api.get(f"{PATH}?cursor={first['next_cursor']}&after_id={seen[0]}")

    found = [event["id"] for one in (first, second, third) for event in one["data"]]
    assert found == [*seen, later]
    assert third["next_cursor"] is None
    assert paths_of(elsewhere) == ["cursor"]


@pytest.mark.parametrize(
    ("query", "path"),
    [
        ("type=message.*", "type"),
        ("type=", "type"),
        ("type=message.sen", "type"),
        ("identity_id=idn_1", "identity_id"),
        ("message_id=evt_01K00000000000000000000000", "message_id"),
        ("after_id=", "after_id"),
        ("after_id=evt_01K0000000000000000000000I", "after_id"),
        ("after_id=evt_01K00000000000000000000000%0A", "after_id"),
        ("cursor=c_nonsense", "cursor"),
        ("limit=0", "limit"),
        ("limit=101", "limit"),
        ("since=2026-11-02T00:00:00Z", "since"),
    ],
)
def test_what_is_no_question_is_refused(api: ApiClient, query: str, path: str) -> None:
    answer = api.get(f"{PATH}?{query}")

    assert answer.status_code == 400
    assert paths_of(answer) == [path]
