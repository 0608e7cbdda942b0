"""Machines that answer each other: ten hops, two automatic replies, then a person."""

import itertools
from typing import Any

import pytest

from mailboxes.statuses import MessageKind, Operation
from outbound.loops import AutoReplyFacts, auto_reply_fault, hop_of, is_loop, next_hop

POLICY: dict[str, Any] = {"auto_reply": {"allowed": True, "max_automatic_exchanges": 2}}


def facts(**changes: Any) -> AutoReplyFacts:
    given: dict[str, Any] = {
        "operation": Operation.REPLY,
        "answered": MessageKind.NORMAL,
        "policy": POLICY,
        "send_policy": {},
        "exchanges": 0,
    }
    return AutoReplyFacts(**{**given, **changes})


@pytest.mark.parametrize(
    ("stored", "hop"), [(None, 1), (0, 1), (-3, 1), (1, 2), (8, 9), (9, 10), (50, 51)]
)
def test_a_hop_is_one_more_than_that_of_what_is_answered(
    stored: int | None, hop: int
) -> None:
    assert next_hop(stored) == hop
    assert is_loop(hop) == (hop >= 10)


@pytest.mark.parametrize(
    ("automated", "hop"),
    [
        (None, 0),
        ({}, 0),
        ({"hop": 4}, 4),
        ({"hop": None}, 0),
        ({"hop": "4"}, 0),
        ({"hop": -1}, 0),
    ],
)
def test_the_stored_hop_is_a_positive_number_or_none(
    automated: dict[str, Any] | None, hop: int
) -> None:
    assert hop_of(automated) == hop


@pytest.mark.parametrize(
    ("operation", "answered"),
    list(itertools.product(Operation, [None, *MessageKind])),
)
def test_only_a_reply_to_mail_of_a_person_or_a_calendar_is_automatic(
    operation: Operation, answered: MessageKind | None
) -> None:
    fault = auto_reply_fault(facts(operation=operation, answered=answered))

    is_reply = operation in (Operation.REPLY, Operation.REPLY_ALL)
    is_answerable = answered in (MessageKind.NORMAL, MessageKind.CALENDAR)
    assert (fault is None) == (is_reply and is_answerable)


@pytest.mark.parametrize(
    ("most", "exchanges", "is_allowed"),
    [(2, 0, True), (2, 1, True), (2, 2, False), (2, 3, False), (0, 0, False)],
)
def test_d6_the_third_automatic_reply_in_a_row_is_refused(
    most: int, exchanges: int, is_allowed: bool
) -> None:
    policy = {"auto_reply": {"allowed": True, "max_automatic_exchanges": most}}

    fault = auto_reply_fault(facts(policy=policy, exchanges=exchanges))

    assert (fault is None) == is_allowed


def test_policy_and_identity_may_each_forbid_them() -> None:
    policy = {"auto_reply": {"allowed": False, "max_automatic_exchanges": 2}}

    assert "policy" in (auto_reply_fault(facts(policy=policy)) or "")
    assert "identity" in (
        auto_reply_fault(facts(send_policy={"auto_reply": "denied"})) or ""
    )
    assert auto_reply_fault(facts(send_policy={"auto_reply": "allowed"})) is None
