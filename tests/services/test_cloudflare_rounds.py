"""Provider suppressions: who is set aside, who is called again, and when no more."""

from collections.abc import Callable
from datetime import timedelta

import pytest
from django.db import OperationalError

from core import points
from delivery.models import Attempt, OutboundState
from mailboxes.models import Event, Message
from mailboxes.services import pause_identity
from outbound import claims, deliver, rounds
from outbound.alarms import sweep_claims
from quota.models import Hold
from suppressions.models import Suppression
from tests.services.conftest import assert_units_add_up, events_of, statuses
from tests.support.cloudflare import configured, queued, shorten, work
from tests.support.cloudflare_server import CloudflareServer, Say, Seen, envelope, error

pytestmark = pytest.mark.django_db
A, B, C, D = (f"{name}@example.net" for name in "abcd")
SUPPRESSED = error(400, "email.sending.error.recipient_suppressed", 10204)


def sent_by(server: CloudflareServer, *recipients: str) -> Message:
    """Return a message after two rings."""
    message = queued(*recipients)
    with configured(server):
        work(message)
    return message


def attempts() -> list[tuple[str | None, str | None, list[str]]]:
    """Return each attempt's result, code and recipients, in their order."""
    rows = Attempt.objects.order_by("n")
    return [(row.result, row.code, row.recipients) for row in rows]


def test_who_is_suppressed_is_set_aside_and_the_rest_is_sent_to_at_once() -> None:
    with CloudflareServer(suppressed={B: "hard_bounce"}) as server:
        message = sent_by(server, A, B, C)

        assert [seen.recipients for seen in server.sends] == [[A, B, C], [A, C]]
        assert server.lookups == [A, B, C]
        assert dict(server.copies) == {A: 1, C: 1}
    assert statuses(message) == {A: "submitted", B: "suppressed", C: "submitted"}
    delivery = message.deliveries.get(address=B)
    assert delivery.smtp_response == "provider: suppressed (hard_bounce)"
    assert delivery.reason == "provider"
    assert (message.status, message.provider_message_id) == ("submitted", "cf-2")
    assert attempts() == [
        ("rejected", "email.sending.error.recipient_suppressed", [A, B, C]),
        ("accepted", None, [A, C]),
    ]
    assert_units_add_up(message)
    assert not Hold.objects.exists()


def test_a_provider_suppression_becomes_ours_once_with_its_event() -> None:
    with CloudflareServer(suppressed={A: "complaint"}) as server:
        message = sent_by(server, A, B)

    row = Suppression.objects.get()
    assert (row.reason, row.source_message_id) == ("provider", message.public_id)
    assert row.expires_at is None
    told = Event.objects.get(type="suppression.created").payload["data"]
    assert told["reason"] == "provider"
    assert events_of(message) == ["suppression.created", "message.sent"]


def test_the_code_of_a_suppression_and_its_words_mean_the_same() -> None:
    answer = error(400, "a recipient is on the suppression list", "E_VALIDATION_ERROR")
    with CloudflareServer(answer, suppressed={B: "manual"}) as server:
        assert sent_by(server, A, B).status == "submitted"
    coded = error(400, "no", "E_RECIPIENT_SUPPRESSED")
    with CloudflareServer(coded, suppressed={B: "manual"}) as server:
        assert sent_by(server, A, B).status == "submitted"


def test_a_server_that_failed_at_its_suppression_list_has_refused_nobody() -> None:
    answer = error(500, "the suppression list could not be read")
    with CloudflareServer(answer) as server:
        message = sent_by(server, A, B)

        assert (server.connections, server.lookups) == (1, [])
    assert message.status == "uncertain"


def test_the_only_recipient_is_the_one_and_nobody_is_asked() -> None:
    with CloudflareServer(suppressed={A: "hard_bounce"}) as server:
        message = sent_by(server, A)

        assert (server.connections, server.lookups) == (1, [])
    assert (message.status, statuses(message)) == ("suppressed", {A: "suppressed"})
    assert events_of(message) == ["message.suppressed", "suppression.created"]
    assert Attempt.objects.get().result == "rejected"
    assert not OutboundState.objects.exists()
    assert_units_add_up(message)


def test_with_nobody_left_the_message_is_suppressed() -> None:
    with CloudflareServer(suppressed={A: "manual", B: "policy"}) as server:
        message = sent_by(server, A, B)

        assert len(server.sends) == 1
    assert message.status == "suppressed"
    assert "message.suppressed" in events_of(message)
    assert not Hold.objects.exists()


@pytest.mark.parametrize(
    ("scope", "status"),
    [
        ("account", "submitted"),
        (None, "submitted"),
        ({"type": "account"}, "submitted"),
        ("OWN", "submitted"),
        ({"type": "sending_domain", "domain": "OWN"}, "submitted"),
        ({"type": "sending_domain", "domain": "other.example"}, "rejected"),
        ("other.example", "rejected"),
    ],
)
def test_an_entry_counts_for_the_account_or_for_this_sending_domain(
    scope: object, status: str
) -> None:
    message = queued(A, B)
    own = (message.from_address or "").partition("@")[2]
    if isinstance(scope, dict):
        scope = {name: own if word == "OWN" else word for name, word in scope.items()}
    with CloudflareServer(SUPPRESSED, suppressed={B: "manual"}) as server:
        server.scope = own if scope == "OWN" else scope
        with configured(server):
            work(message)

    assert message.status == status


def test_a_list_is_read_to_its_end_even_over_empty_pages() -> None:
    def page(seen: Seen) -> Say:
        if seen.query["email"] != B:
            return Say(200, envelope([]))
        if seen.query.get("cursor") != "c2":
            cursor = "c2" if "cursor" in seen.query else "c1"
            return Say(200, envelope([], result_info={"next_cursor": cursor}))
        return Say(200, envelope([{"email": B.upper(), "reason": "manual"}]))

    with CloudflareServer(SUPPRESSED) as server:
        server.lookup = page
        assert sent_by(server, A, B).status == "submitted"
        assert server.lookups == [A, B, B, B]


def no_end(seen: Seen) -> Say:
    return Say(200, envelope([], result_info={"next_cursor": "again"}))


@pytest.mark.parametrize(
    "lookup",
    [
        Say(200, envelope([])),
        Say(200, envelope([{"email": "other@example.net", "reason": "manual"}])),
        Say(200, envelope(None)),
        Say(403, envelope(None, success=False)),
        Say(200, "<html>"),
        "reset",
        "half",
        no_end,
    ],
    ids=["none", "another", "no list", "403", "html", "reset", "half", "no end"],
)
def test_when_nobody_can_tell_who_it_is_the_message_is_rejected(
    lookup: Say | str,
) -> None:
    with CloudflareServer(SUPPRESSED) as server:
        server.lookup = lookup
        message = sent_by(server, A, B)

        assert len(server.sends) == 1
        assert server.copies.total() == 0
    assert message.status == "rejected"
    assert message.reason == "recipient_suppressed_by_provider"
    assert statuses(message) == {A: "rejected", B: "rejected"}
    assert events_of(message) == ["message.rejected"]
    assert not Suppression.objects.exists()
    assert_units_add_up(message)


def test_three_rounds_are_made_and_no_fourth() -> None:
    # Given a provider that finds another one each time, and never has enough
    recipients = [f"{n}@example.net" for n in range(6)]
    with CloudflareServer(*[SUPPRESSED] * 9) as server:

        def one_more(seen: Seen) -> Say:
            nth = f"{len(server.sends) - 1}@example.net"
            is_it = seen.query["email"] == nth
            entry = {"email": nth, "reason": "manual"}
            return Say(200, envelope([entry] if is_it else []))

        server.lookup = one_more
        message = sent_by(server, *recipients)

        assert [len(seen.recipients) for seen in server.sends] == [6, 5, 4, 3]
    assert message.status == "rejected"
    assert message.reason == "recipient_suppressed_by_provider"
    found = statuses(message)
    assert [found[each] for each in recipients] == [
        *["suppressed"] * 3,
        *["rejected"] * 3,
    ]
    assert [result for result, _, _ in attempts()] == ["rejected"] * 4


def test_a_round_that_ends_in_doubt_leaves_the_suppressed_ones_suppressed() -> None:
    with CloudflareServer(
        SUPPRESSED, "reset_after", suppressed={B: "manual"}
    ) as server:
        message = sent_by(server, A, B)

        assert len(server.sends) == 2
    assert statuses(message) == {A: "uncertain", B: "suppressed"}
    assert message.status == "uncertain"
    assert [result for result, _, _ in attempts()] == ["rejected", "uncertain"]


def test_a_round_that_is_throttled_waits_with_the_rest_only(
    later: Callable[[float], None],
) -> None:
    busy = error(429, "email.sending.error.throttled")
    with CloudflareServer(SUPPRESSED, busy, suppressed={B: "manual"}) as server:
        message = sent_by(server, A, B)
        assert statuses(message) == {A: "queued", B: "suppressed"}
        assert Hold.objects.get().units == 1

        later(20)
        with configured(server):
            work(message)
        assert server.sends[-1].recipients == [A]
    assert message.status == "submitted"
    assert_units_add_up(message)


def test_the_look_ups_of_a_round_share_one_deadline(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Given look-ups that take a third of the time each
    shorten(monkeypatch, 0.6)
    with CloudflareServer(SUPPRESSED, suppressed={D: "manual"}) as server:
        answer = server._list

        def slow(seen: Seen) -> Say:
            server._closing.wait(0.25)
            return answer(seen)

        server.lookup = slow
        message = sent_by(server, A, B, C, D)

        # Then the time is over before all have been asked about
        assert D not in server.lookups
        assert len(server.sends) == 1
    assert message.reason == "recipient_suppressed_by_provider"


def age_the_claim(message: Message) -> None:
    """Let the claim be older than any may be, and the alarm find it."""
    OutboundState.objects.filter(claim_token__isnull=False).update(
        claimed_at=message.received_at - timedelta(hours=1)
    )
    sweep_claims()


def test_no_call_is_made_once_the_claim_is_gone() -> None:
    """Row 37: look-ups slower than the claim."""
    message = queued(A, B)
    points.planted["deliver.suppressed"] = lambda: age_the_claim(message)
    with CloudflareServer(suppressed={B: "manual"}) as server:
        with configured(server):
            work(message)

        assert len(server.sends) == 1
        assert server.copies.total() == 0
    assert statuses(message) == {A: "uncertain", B: "uncertain"}
    assert not Suppression.objects.exists()
    attempt = Attempt.objects.get()
    assert (attempt.result, attempt.finished_at is not None) == ("rejected", True)


def test_a_worker_that_dies_between_rounds_leaves_doubt_for_the_rest_alone() -> None:
    """Row 37: death between rounds; suppressed ones stay so."""
    message = queued(A, B)
    with CloudflareServer(suppressed={B: "manual"}) as server, configured(server):
        claim = claims.claim(message.public_id)
        assert claim is not None
        refusal = deliver._call(claim)
        assert rounds.next_round(claim, refusal) is not None  # type: ignore[arg-type]  # a refusal, or the test fails there

        age_the_claim(message)
        work(message)

        assert len(server.sends) == 1
    assert statuses(message) == {A: "uncertain", B: "suppressed"}
    last = Attempt.objects.get(n=2)
    assert (last.result, last.phase) == ("uncertain", "worker_lost")
    assert "awaiting_reply" in (last.detail or "")


def test_a_round_renews_the_claim_and_the_lease_of_the_thread() -> None:
    message = queued(A, B)
    message.thread.lock_owner = message.public_id
    message.thread.lock_until = message.received_at
    message.thread.save()
    with CloudflareServer(suppressed={B: "manual"}) as server, configured(server):
        claim = claims.claim(message.public_id)
        assert claim is not None
        OutboundState.objects.update(claimed_at=message.received_at)
        refusal = deliver._call(claim)

        rest = rounds.next_round(claim, refusal)  # type: ignore[arg-type]  # a refusal, or the test fails there

    assert rest is not None
    assert (rest.n, rest.outgoing.recipients) == (2, (A,))
    assert rest.outgoing.seconds_left() > 290
    state = OutboundState.objects.get()
    attempt = Attempt.objects.get(n=2)
    assert state.claimed_at == attempt.claimed_at
    assert attempt.claimed_at > message.received_at
    message.thread.refresh_from_db()
    assert message.thread.lock_until is not None
    assert (message.thread.lock_until - attempt.claimed_at) == timedelta(seconds=60)


@pytest.mark.django_db(transaction=True)
def test_a_round_whose_commit_went_unanswered_is_written_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Given a database that commits the round, and says nothing
    message = queued(A, B)
    plain = rounds._next
    lost: list[object] = []

    def unanswered(*args: object, **named: object) -> object:
        found = plain(*args, **named)  # type: ignore[arg-type]  # passed on as given
        if not lost:
            lost.append(found)
            raise OperationalError("the connection is lost")
        return found

    monkeypatch.setattr(rounds, "_next", unanswered)
    with CloudflareServer(suppressed={B: "manual"}) as server:
        with configured(server):
            work(message)

        assert dict(server.copies) == {A: 1}
    assert statuses(message) == {A: "submitted", B: "suppressed"}
    assert [result for result, _, _ in attempts()] == ["rejected", "accepted"]
    assert events_of(message) == ["suppression.created", "message.sent"]


def test_an_identity_paused_after_the_refusal_is_asked_at_the_next_claim() -> None:
    message = queued(A, B)
    busy = error(429, "email.sending.error.throttled")
    with CloudflareServer(SUPPRESSED, busy, suppressed={B: "manual"}) as server:
        with configured(server):
            work(message)
        pause_identity(message.identity_id)
        OutboundState.objects.update(retry_at=message.received_at)
        with configured(server):
            work(message)

        assert len(server.sends) == 2
    assert message.status == "canceled"
