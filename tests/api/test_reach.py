"""What is out of a key's reach is byte for byte what does not exist, on every route.

The calls are taken from the routes themselves: a new one is tried here without being
named, and fails until its kind of id is known below.
"""

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from django.urls import URLPattern

from core.ids import new_id
from mailboxes.key_services import create_key
from mailboxes.models import Address, ApiKey, Attachment, Identity
from pylota.urls import v1
from tests.factories import AddressFactory
from tests.support.api import ApiClient, booking

pytestmark = pytest.mark.django_db

VERBS = ("get", "post", "put", "patch", "delete")
BODIES: tuple[Any, ...] = (None, {}, {"unknown": 1})
FILE = {"filename": "a.txt", "content_type": "text/plain", "content_base64": "aGk="}
MISSING = {
    "tenant_id": new_id("ten"),
    "identity_id": new_id("idn"),
    "address_id": new_id("adr"),
    "thread_id": new_id("thr"),
    "message_id": new_id("msg"),
    "attachment_id": new_id("att"),
    "key_id": new_id("key"),
}
OTHERWISE = {
    "purpose": "link",
    "direction": "send",
    "kind": "block",
    "entry": "@example.net",
    "address": "jo@example.net",
}
"""Parts of a path that name nothing of a tenant's by themselves."""


def calls() -> Iterator[tuple[str, str]]:
    """Yield (verb, path) of every call whose path holds an id."""
    for pattern in v1:
        assert isinstance(pattern, URLPattern)
        view: Any = pattern.callback
        if "_id>" in (path := str(pattern.pattern)):
            for verb in VERBS:
                if hasattr(view.view_class, verb):
                    yield verb.upper(), f"/v1/{path}"


def filled(path: str, ids: dict[str, str]) -> str:
    return re.sub(r"<\w+:(\w+)>", lambda m: (ids | OTHERWISE)[m[1]], path)


@pytest.fixture
def foreign(db: None) -> dict[str, str]:
    """The ids of another tenant's rows, one of each kind, and all of them there."""
    address = AddressFactory.create()
    key = create_key(name="theirs", tenant=address.identity.tenant)
    theirs = ApiClient(key.secret, address.identity_id)
    sent = theirs.send(booking(attachments=[FILE])).json()
    return {
        "tenant_id": address.identity.tenant_id,
        "identity_id": address.identity_id,
        "address_id": address.id,
        "thread_id": sent["thread_id"],
        "message_id": sent["id"],
        "attachment_id": sent["attachments"][0]["id"],
        "key_id": ApiKey.objects.get(name="theirs").id,
    }


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
    for verb, path in calls():
        for body in BODIES:
            theirs = answer_of(caller, verb, filled(path, foreign), body)
            nobodys = answer_of(caller, verb, filled(path, MISSING), body)

            assert theirs == nobodys, (verb, path, body)
            # 403: the route is above the level of the key
            assert theirs[0] in (403, 404), (verb, path, body)


def test_a_foreign_id_below_ones_own_is_not_there_either(
    caller: ApiClient, identity: Identity, foreign: dict[str, str]
) -> None:
    own = {"tenant_id": identity.tenant_id, "identity_id": identity.id}
    for verb, path in calls():
        if path.count("_id>") < 2:
            continue
        theirs = answer_of(caller, verb, filled(path, foreign | own), {})
        nobodys = answer_of(caller, verb, filled(path, MISSING | own), {})

        assert theirs == nobodys, (verb, path)
        assert theirs[0] in (400, 403, 404), (verb, path)


def test_the_foreign_rows_do_exist(foreign: dict[str, str]) -> None:
    assert Identity.objects.filter(id=foreign["identity_id"]).exists()
    assert Address.objects.filter(id=foreign["address_id"]).exists()
    assert Attachment.objects.filter(id=foreign["attachment_id"]).exists()
    assert not set(foreign.values()) & set(MISSING.values())
