"""What each end of a call means for message and recipients: the closed sum, by rows."""

import pytest

from delivery.rollup import roll_up
from delivery.statuses import AttemptResult, DeliveryStatus
from mailboxes.statuses import MessageStatus
from outbound.outcomes import Outcome, outcome_of
from outbound.transports.base import (
    Accepted,
    RecipientRefusal,
    RecipientSuppressed,
    Rejected,
    RejectReason,
    RetryClass,
    RetryLater,
    TransportResult,
    UncertainReason,
    Unknown,
)

A, B, C = "a@example.net", "b@example.net", "c@example.net"
REFUSED = (RecipientRefusal(B, "550", "5.1.1 unknown"),)


def after(result: TransportResult) -> tuple[Outcome, dict[str, str]]:
    """Return an outcome, and how the recipients stand after it."""
    outcome = outcome_of(result, queued=(A, B, C))
    moved = {change.address: str(change.status) for change in outcome.changes}
    return outcome, {**dict.fromkeys((A, B, C), "queued"), **moved}


def message_status(statuses: dict[str, str]) -> str:
    return str(
        roll_up(MessageStatus.QUEUED, [DeliveryStatus(s) for s in statuses.values()])
    )


def test_an_acceptance_submits_all_it_does_not_name() -> None:
    outcome, statuses = after(Accepted("1", refused=REFUSED, suppressed=(C,)))

    assert statuses == {A: "submitted", B: "rejected", C: "suppressed"}
    assert (outcome.retry, outcome.uncertain) == (None, False)
    assert message_status(statuses) == "submitted"


def test_deferred_recipients_wait_by_the_relays_back_off() -> None:
    outcome, statuses = after(Accepted("1", refused=REFUSED, deferred=(C,)))

    assert statuses == {A: "submitted", B: "rejected", C: "queued"}
    assert (outcome.retry, outcome.waiting) == (RetryClass.RELAY, (C,))


@pytest.mark.parametrize("reason", RejectReason)
def test_a_rejection_rejects_all_for_its_reason_and_nothing_is_tried_again(
    reason: RejectReason,
) -> None:
    outcome, statuses = after(Rejected(reason, "550", "no"))

    assert set(statuses.values()) == {"rejected"}
    assert (outcome.reason, outcome.retry) == (str(reason), None)
    assert message_status(statuses) == "rejected"


def test_a_suppression_that_nobody_can_name_rejects_the_message() -> None:
    outcome, statuses = after(RecipientSuppressed("E_RECIPIENT_SUPPRESSED", "some"))

    assert set(statuses.values()) == {"rejected"}
    assert outcome.reason == "recipient_suppressed_by_provider"


@pytest.mark.parametrize("retry_class", RetryClass)
def test_what_may_pass_leaves_all_queued_but_for_those_refused_for_good(
    retry_class: RetryClass,
) -> None:
    outcome, statuses = after(RetryLater(retry_class, "451", "", REFUSED))

    assert statuses == {A: "queued", B: "rejected", C: "queued"}
    assert (outcome.retry, outcome.waiting) == (retry_class, (A, C))
    assert (outcome.result, outcome.uncertain) == (AttemptResult.RETRY, False)


@pytest.mark.parametrize("reason", UncertainReason)
def test_what_is_unknown_is_uncertain_and_never_tried_again(
    reason: UncertainReason,
) -> None:
    outcome, statuses = after(Unknown(reason, "silence"))

    assert set(statuses.values()) == {"uncertain"}
    assert (outcome.uncertain, outcome.retry) == (True, None)
    assert outcome.reason == str(reason)
