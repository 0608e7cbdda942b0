"""Bodies made to be expensive are refused cheaply, and in a short answer."""

import json
import time
from collections.abc import Callable

import pytest

from core.bodies import BODY_LIMIT, NAMES_LIMIT, parse_json_object
from core.errors import LONGEST_PATH, MOST_ERRORS, InvalidRequest
from outbound.requests import SendRequest


def names(form: str) -> str:
    """Return as many members of this form as a body has room for."""
    room = (BODY_LIMIT - 100) // len(form % 999_999 + ",")
    return ",".join(form % n for n in range(room))


def parse(body: str) -> InvalidRequest:
    with pytest.raises(InvalidRequest) as caught:
        SendRequest.parse(parse_json_object(body.encode()))
    return caught.value


def test_a_name_that_comes_again_after_many_others_is_found_in_no_time() -> None:
    body = "{" + ",".join(f'"k{n}":1' for n in range(NAMES_LIMIT - 1)) + ',"k7":2}'
    began = time.process_time()

    refusal = parse(body)

    assert time.process_time() - began < 2
    assert refusal.details["errors"][0]["path"] == "k7"


@pytest.mark.parametrize(
    "form",
    [
        lambda: "{" + names('"%d":0') + "}",
        lambda: '{"metadata":{' + names('"%d":0') + "}}",
        lambda: '{"to":[{' + names('"%d":0') + "}]}",
        lambda: '{"to":[' + names('{"%d":0}') + "]}",
    ],
)
def test_a_million_names_are_refused_before_any_is_judged(
    form: Callable[[], str],
) -> None:
    refusal = parse(form())

    assert refusal.detail == f"The JSON holds more than {NAMES_LIMIT} names."


def test_a_refusal_is_short_though_the_names_are_long() -> None:
    long = {f"{n}{'k' * 100_000}": 1 for n in range(60)}

    listed = parse(json.dumps(long)).details["errors"]

    assert len(listed) == MOST_ERRORS
    assert max(len(error["path"]) for error in listed) == LONGEST_PATH


def test_a_refusal_that_lists_no_field_does_not_send_the_reader_to_a_list() -> None:
    assert "details.errors" not in parse("no JSON").fix
    assert "details.errors" in parse('{"to":1}').fix
