"""What is out of a key's reach is byte for byte what does not exist, on every route.

The calls are taken from the routes themselves: a new one is tried here without being
named, and fails until its kind of id is known below.
"""

import json
import re
from typing import Any

import pytest

from core.ids import new_id
from mailboxes.key_services import create_key
from mailboxes.models import Address, ApiKey, Attachment, Identity, Message, Thread
from suppressions.models import SendListEntry, Suppression
from tests.factories import AddressFactory
from tests.support.api import ApiClient
from tests.support.calls import Call, body_of, calls, filled, route_of
from tests.support.lived_in import NAMED, lived_in
from webhooks.models import WebhookEndpoint

pytestmark = pytest.mark.django_db

BODIES: tuple[Any, ...] = (None, {}, {"unknown": 1})
NOBODY = "nobody@example.com"
MISSING = {
    **NAMED,
    "address": NOBODY,
    "entry": NOBODY,
    "known_address": NOBODY,
    "tenant_id": new_id("ten"),
    "identity_id": new_id("idn"),
    "address_id": new_id("adr"),
    "pending_address_id": new_id("adr"),
    "domain_id": new_id("dom"),
    "thread_id": new_id("thr"),
    "message_id": new_id("msg"),
    "queued_message_id": new_id("msg"),
    "doubtful_message_id": new_id("msg"),
    "attachment_id": new_id("att"),
    "key_id": new_id("key"),
    "webhook_id": new_id("whk"),
    "event_id": new_id("evt"),
}


def rows_named(call: Call) -> int:
    """Return how many rows the path of a call names."""
    return len(re.findall(r"_id>|:address>|:entry>", route_of(call[0])))


@pytest.fixture
def foreign(db: None) -> dict[str, str]:
    """The ids of another tenant's rows, one of each kind, and all of them there."""
    return lived_in(AddressFactory.create().identity)


@pytest.fixture(params=["tenant", "identity"])
def caller(request: pytest.FixtureRequest, identity: Identity) -> ApiClient:
    """A key of each level below the platform's, with every scope of its level."""
    if request.param == "tenant":
        made = create_key(name="ours", tenant=identity.tenant)
    else:
        made = create_key(name="ours", identity=identity)
    return ApiClient(made.secret, identity.id)


def answer_of(caller: ApiClient, verb: str, path: str, body: Any) -> tuple[Any, ...]:
    response = caller.request(
        verb,
        path,
        data=b"" if body is None else json.dumps(body).encode(),
        content_type="application/json",
        headers={
            "Authorization": f"Bearer {caller.secret}",
            "Idempotency-Key": "key-of-this-test",
        },
    )
    shown = response.content.decode()
    if response.headers.get("Content-Type", "").startswith("application/json"):
        shown = re.sub(r'"request_id":\s*"req_[0-9A-Z]{26}"', "", shown)
    headers = {k: v for k, v in response.headers.items() if k != "Request-Id"}
    return response.status_code, shown, headers


def test_a_foreign_id_is_answered_like_one_that_does_not_exist(
    caller: ApiClient, foreign: dict[str, str]
) -> None:
    for call in calls():
        if not rows_named(call):
            continue
        for body in (*BODIES, body_of(call, foreign)):
            theirs = answer_of(caller, call[1], filled(call, foreign), body)
            nobodys = answer_of(caller, call[1], filled(call, MISSING), body)

            assert theirs == nobodys, (call, body)
            # 403: the route is above the level of the key
            assert theirs[0] in (403, 404), (call, body)


def test_a_foreign_id_below_ones_own_is_not_there_either(
    caller: ApiClient, identity: Identity, foreign: dict[str, str]
) -> None:
    own = {"tenant_id": identity.tenant_id, "identity_id": identity.id}
    for call in calls(["GET", "POST", "PATCH", "DELETE"]):  # a PUT makes what it names
        if rows_named(call) < 2:
            continue
        for body in (*BODIES, body_of(call, foreign)):
            theirs = answer_of(caller, call[1], filled(call, foreign | own), body)
            nobodys = answer_of(caller, call[1], filled(call, MISSING | own), body)

            assert theirs == nobodys, (call, body)
            assert theirs[0] in (400, 403, 404, 411), (call, body)
            assert body != body_of(call, foreign) or theirs[0] != 400, call


def test_a_foreign_address_is_nobodys(
    caller: ApiClient, foreign: dict[str, str]
) -> None:
    call = ("identity-lookup", "GET")

    theirs = answer_of(caller, "GET", filled(call, foreign), None)

    assert theirs == answer_of(caller, "GET", filled(call, MISSING), None)
    assert theirs[0] == 404


def test_the_foreign_rows_do_exist(foreign: dict[str, str]) -> None:
    message = Message.objects.get(public_id=foreign["message_id"])
    of_tenant = {"tenant_id": foreign["tenant_id"]}

    assert message.identity_id == foreign["identity_id"]
    assert Thread.objects.filter(public_id=foreign["thread_id"]).exists()
    assert Attachment.objects.filter(id=foreign["attachment_id"]).exists()
    for name in ("address_id", "pending_address_id"):
        assert Address.objects.filter(id=foreign[name], **of_tenant).exists()
    assert ApiKey.objects.filter(id=foreign["key_id"], **of_tenant).exists()
    assert WebhookEndpoint.objects.filter(id=foreign["webhook_id"], **of_tenant)
    assert Suppression.objects.filter(**of_tenant).exists()
    assert SendListEntry.objects.filter(entry=foreign["entry"], **of_tenant).exists()
    assert {n for n in foreign if foreign[n] == MISSING[n]} == {
        *("direction", "kind", "purpose")
    }
