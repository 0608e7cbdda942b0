"""What all routes have in common, tried on all of them (REST contract, section 1).

Routes are taken from the table of routes: a new one is tried here without being named.
"""

from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from pytest_django import Settings

from core import clock
from mailboxes.key_services import create_key
from mailboxes.models import Identity
from mailboxes.scopes import Scope
from tests.support.api import ApiClient, code_of, paths_of
from tests.support.calls import (
    GOOD,
    SENDING,
    another,
    body_of,
    calls,
    filled,
    has_another,
)
from tests.support.lists import GROW, limit_of, lists, path_of, shown
from tests.support.lived_in import lived_in

pytestmark = pytest.mark.django_db

Rows = dict[str, str]
Call = tuple[str, str]
WITH_BODY = [call for call in calls() if call[1] != "GET"]
ONCE = [c for c in calls(["POST"]) if c[0] not in SENDING]
WRITES = ("INSERT", "UPDATE", "DELETE")


@pytest.fixture
def rows(identity: Identity) -> Rows:
    """One row of every kind that a path can name."""
    return lived_in(identity)


def ask(
    client: ApiClient, call: Call, path: str, body: Any = None, key: str | None = None
) -> Any:
    name, verb = call
    headers = {} if key is None else {"Idempotency-Key": key}
    if name in SENDING and verb == "POST":
        headers["Idempotency-Key"] = key or "key-1"
    if verb == "GET":
        return client.get(path, **headers)
    return client._with_body(verb, path, body, headers)


# --- parameters


def test_a_parameter_that_no_description_names_is_refused_with_its_name(
    platform_api: ApiClient, rows: Rows
) -> None:
    for call in calls():
        path = filled(call, rows)
        path += ("&" if "?" in path else "?") + "dryrun=true"

        answer = ask(platform_api, call, path, body_of(call, rows))

        found = (answer.status_code, code_of(answer), paths_of(answer))
        assert found == (400, "invalid_request", ["dryrun"]), call


# --- lists


def test_every_list_is_known_to_these_tests() -> None:
    assert set(lists()) == set(GROW)


@pytest.mark.parametrize("name", sorted(GROW))
def test_a_list_is_read_page_by_page(
    platform_api: ApiClient, identity: Identity, rows: Rows, name: str
) -> None:
    for n in range(3):
        GROW[name](identity, rows, n)
    path, limit = path_of(name, rows), limit_of(name)

    platform_api.get("/v1/me")  # a key is marked as used once a minute

    whole = platform_api.get(f"{path}?{limit}=100").json()
    pages: list[list[Any]] = []
    cursor = ""
    while not pages or cursor:
        page = platform_api.get(f"{path}?{limit}=2{cursor}").json()
        pages.append(shown(page))
        cursor = f"&cursor={page['next_cursor']}" if page["next_cursor"] else ""

    assert len(shown(whole)) >= 3
    assert whole["next_cursor"] is None
    assert [row for page in pages for row in page] == shown(whole)
    assert {len(page) for page in pages[:-1]} == {2}


def test_what_a_list_does_not_know_is_refused_with_its_path(
    platform_api: ApiClient, rows: Rows
) -> None:
    for name in sorted(GROW):
        path, limit = path_of(name, rows), limit_of(name)
        for query, place in (
            ("unknown=1", "unknown"),
            (f"{limit}=0", limit),
            (f"{limit}=101", limit),
            (f"{limit}=2&{limit}=2", limit),
            ("cursor=", "cursor"),
            ("cursor=c_x", "cursor"),
        ):
            answer = platform_api.get(f"{path}?{query}")
            assert (answer.status_code, paths_of(answer)) == (400, [place]), (
                name,
                query,
            )


@pytest.mark.parametrize("name", sorted(GROW))
def test_a_cursor_is_good_for_its_list_its_key_and_a_day(
    platform_api: ApiClient, identity: Identity, rows: Rows, name: str
) -> None:
    for n in range(2):
        GROW[name](identity, rows, n)
    path, limit = path_of(name, rows), limit_of(name)
    cursor = platform_api.get(f"{path}?{limit}=1").json()["next_cursor"]
    middle = len(cursor) // 2
    other = "A" if cursor[middle] != "A" else "B"
    tampered = f"{cursor[:middle]}{other}{cursor[middle + 1 :]}"
    elsewhere = "keys" if name != "keys" else "tenants"
    stranger = ApiClient(create_key(name="other").secret, "")

    for answer in (
        platform_api.get(f"{path}?{limit}=1&cursor={tampered}"),
        platform_api.get(f"{path_of(elsewhere, rows)}?limit=1&cursor={cursor}"),
        stranger.get(f"{path}?{limit}=1&cursor={cursor}"),
    ):
        assert (answer.status_code, paths_of(answer)) == (400, ["cursor"])
    assert platform_api.get(f"{path}?{limit}=1&cursor={cursor}").status_code == 200
    clock.offset = timedelta(hours=24, seconds=1)
    late = platform_api.get(f"{path}?{limit}=1&cursor={cursor}")
    assert (late.status_code, code_of(late)) == (410, "cursor_expired")


# --- POSTs that send no mail


def test_every_such_post_has_another_request_to_conflict_with() -> None:
    assert [call for call in ONCE if call not in GOOD] == []


@pytest.mark.parametrize("call", ONCE, ids=lambda call: call[0])
def test_a_post_is_done_once_for_one_key(
    platform_api: ApiClient, rows: Rows, call: Call
) -> None:
    path, body = filled(call, rows), body_of(call, rows)
    first = ask(platform_api, call, path, body, "key-1")
    assert first.status_code in (200, 201, 202), first.content

    with CaptureQueriesContext(connection) as captured:
        again = ask(platform_api, call, path, body, "key-1")

    assert again.status_code == first.status_code
    assert again["Idempotent-Replayed"] == "true"
    assert "Idempotent-Replayed" not in first.headers
    replayed = again.json()
    if "secret" in first.json():
        assert replayed.pop("secret_replayed") is False
    assert replayed == {k: v for k, v in first.json().items() if k != "secret"}
    written = [q["sql"] for q in captured if q["sql"].startswith(WRITES)]
    assert written == []


@pytest.mark.parametrize(
    "call", [c for c in ONCE if has_another(c)], ids=lambda call: call[0]
)
def test_another_request_under_the_key_is_a_conflict(
    platform_api: ApiClient, rows: Rows, call: Call
) -> None:
    path, body = filled(call, rows), body_of(call, rows)
    assert ask(platform_api, call, path, body, "key-1").status_code in (200, 201, 202)

    answer = ask(platform_api, call, *another(call, rows), "key-1")

    assert (answer.status_code, code_of(answer)) == (409, "idempotency_conflict")


# --- bodies


def test_an_unknown_field_is_refused_with_its_path(
    platform_api: ApiClient, rows: Rows
) -> None:
    for call in WITH_BODY:
        body = {**(body_of(call, rows) or {}), "unknown": 1}

        answer = ask(platform_api, call, filled(call, rows), body)

        found = (answer.status_code, code_of(answer), paths_of(answer))
        assert found == (400, "invalid_request", ["unknown"]), call


# --- headers


@pytest.mark.parametrize("call", calls(), ids=" ".join)
def test_every_answer_names_its_request_and_the_limit_of_its_key(
    platform_api: ApiClient, rows: Rows, call: Call, settings: Settings
) -> None:
    settings.PM_RATE_PER_KEY = 600
    path, body = filled(call, rows), body_of(call, rows)
    is_usage = call[0].startswith("usage")
    other = Scope.AUDIT_READ if is_usage else Scope.USAGE_READ
    poor = ApiClient(create_key(name="poor", permissions=[other]).secret, "")

    refused = ask(poor, call, path, body)
    nobody = ask(ApiClient("pmk_live_x", ""), call, path, body)
    done = ask(platform_api, call, path, body)

    assert refused.status_code == (200 if call[0] == "me" else 403)
    assert nobody.status_code == 401
    assert 200 <= done.status_code < 300, done.content
    assert len({a["Request-Id"] for a in (refused, nobody, done)}) == 3
    assert (refused["RateLimit-Limit"], done["RateLimit-Limit"]) == ("600", "600")
    assert "RateLimit-Limit" not in nobody.headers
