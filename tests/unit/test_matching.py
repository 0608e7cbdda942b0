"""Which endpoint is told of which event."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from webhooks.catalogue import EVENT_TYPES, LATER, OF_WEBHOOKS, RAISED, asks_for_mail
from webhooks.matching import Interest, Occurrence, is_told, wants

AT = datetime(2026, 11, 2, 9, 15, 20, 114000, tzinfo=UTC)
EVENT = Occurrence("message.sent", "ten_a", "idn_a", AT)
ENDPOINT = Interest("ten_a", ["message.sent"], None, True, AT - timedelta(hours=1))
DISABLED = Occurrence("webhook.disabled", "ten_a", None, AT)
TEST = Occurrence("webhook.test", "ten_a", None, AT)
OF_THE_PLATFORM = Occurrence("message.sent", None, None, AT)


@pytest.mark.parametrize(
    ("endpoint", "event", "told"),
    [
        (ENDPOINT, EVENT, True),
        (replace(ENDPOINT, tenant_id=None), EVENT, True),
        (replace(ENDPOINT, tenant_id="ten_b"), EVENT, False),
        (replace(ENDPOINT, tenant_id=None), OF_THE_PLATFORM, True),
        (ENDPOINT, OF_THE_PLATFORM, False),
        (replace(ENDPOINT, events=["*"]), EVENT, True),
        (replace(ENDPOINT, events=["message.failed", "*"]), EVENT, True),
        (replace(ENDPOINT, events=["message.failed"]), EVENT, False),
        (replace(ENDPOINT, events=["message.*"]), EVENT, False),
        (replace(ENDPOINT, events=["message.sen"]), EVENT, False),
        (replace(ENDPOINT, identity_ids=["idn_b", "idn_a"]), EVENT, True),
        (replace(ENDPOINT, identity_ids=["idn_b"]), EVENT, False),
        (replace(ENDPOINT, identity_ids=[]), EVENT, False),
        (replace(ENDPOINT, identity_ids=["idn_a"]), OF_THE_PLATFORM, False),
        (replace(ENDPOINT, events=["*"]), DISABLED, False),
        (replace(ENDPOINT, tenant_id=None, events=["*"]), DISABLED, True),
        (replace(ENDPOINT, events=["*"]), TEST, False),
        (replace(ENDPOINT, tenant_id=None, events=["webhook.test"]), TEST, False),
    ],
)
def test_scope_types_and_identities_decide(
    endpoint: Interest, event: Occurrence, told: bool
) -> None:
    assert wants(endpoint, event) is is_told(endpoint, event) is told


def test_an_endpoint_that_is_off_is_told_nothing_and_may_be_replayed_to() -> None:
    off = replace(ENDPOINT, is_enabled=False)

    assert not is_told(off, EVENT)
    assert wants(off, EVENT)


def test_what_came_before_an_endpoint_is_told_by_replay_alone() -> None:
    later = replace(ENDPOINT, created_at=AT + timedelta(milliseconds=1))

    assert not is_told(later, EVENT)
    assert wants(later, EVENT)


def test_what_happens_in_the_millisecond_of_the_creation_is_told() -> None:
    same = replace(ENDPOINT, created_at=AT + timedelta(microseconds=999))

    assert is_told(same, EVENT)


def test_the_parts_of_the_catalogue_share_no_type() -> None:
    assert len(EVENT_TYPES) == len(RAISED) + len(OF_WEBHOOKS) + len(LATER) == 37


def test_everything_includes_mail() -> None:
    assert asks_for_mail(["*"])
    assert asks_for_mail(["identity.paused", "message.sent"])
    assert not asks_for_mail(["identity.paused", "tenant.policy_updated"])
    assert not asks_for_mail(["messages"])
