"""What a call to Cloudflare says, whether it is made, and what its answer brings."""

import socket
import ssl
import threading
import time
from collections.abc import Callable

import pytest

from core import elapsed, http_once, points
from core.clock import database_now
from core.deadline import Deadline
from core.http_answer import Answer
from delivery.models import Attempt, OutboundState, ProviderEvent
from delivery.services import apply_event, resolve
from mailboxes.models import Alert, Message
from mailboxes.statuses import MessageKind, TenantMode
from outbound import claims, deliver
from outbound.alarms import sweep_claims
from outbound.transports.base import Accepted
from suppressions.models import Suppression
from tests.services.conftest import assert_units_add_up, events_of, statuses
from tests.support.certificates import authority, bad_context, good_context
from tests.support.cloudflare import configured, queued, shorten, work
from tests.support.cloudflare_server import (
    ACCOUNT,
    TOKEN,
    CloudflareServer,
    Say,
    error,
    taken,
)

pytestmark = pytest.mark.django_db
A, B, HIDDEN = "a@example.net", "b@example.net", "hidden@example.net"
Later = Callable[[float], None]


def sent_by(server: CloudflareServer, message: Message, **changes: object) -> Message:
    with configured(server, **changes):
        work(message)
    return message


# --- the request ---------------------------------------------------------------------


def test_a_send_is_one_post_with_the_token_and_the_envelope() -> None:
    with CloudflareServer() as server:
        message = sent_by(server, queued(A, bcc=(HIDDEN,)))

        (seen,) = server.requests
    assert (seen.method, seen.query) == ("POST", {})
    assert seen.path == f"/client/v4/accounts/{ACCOUNT}/email/sending/send"
    assert seen.headers["authorization"] == f"Bearer {TOKEN}"
    assert seen.headers["content-type"] == "application/json"
    assert seen.json == {
        "from": {"address": message.from_address, "name": "Acme Bookings"},
        "to": [{"address": A}],
        "bcc": [{"address": HIDDEN}],
        "subject": "Your booking",
        "text": "See you soon.\n",
    }


def test_a_proxy_out_of_the_environment_is_not_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with CloudflareServer() as proxy, CloudflareServer() as server:
        for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "HTTPS_PROXY"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.port}")

        assert sent_by(server, queued(A)).status == "submitted"
        assert proxy.connections == 0


@pytest.mark.parametrize("wanted", ["on", "off"])
def test_the_journal_is_a_hidden_recipient_and_no_delivery(wanted: str) -> None:
    with CloudflareServer() as server:
        message = sent_by(server, queued(A), PM_CF_JOURNAL=wanted == "on")

        (seen,) = server.sends
    message_ulid = message.public_id.removeprefix("msg_").lower()
    identity_ulid = message.identity_id.removeprefix("idn_").lower()
    journal = f"journal+{message_ulid}.{identity_ulid}@agents.test"
    assert seen.recipients == ([A, journal] if wanted == "on" else [A])
    assert len(journal.partition("@")[0]) == 61
    assert statuses(message) == {A: "submitted"}
    assert_units_add_up(message)


def test_with_a_journal_the_only_recipient_is_asked_about_too() -> None:
    # Given a provider that may mean the journal's address
    refusal = error(400, "email.sending.error.recipient_suppressed")
    with CloudflareServer(refusal) as server:
        message = sent_by(server, queued(A), PM_CF_JOURNAL=True)

        assert server.lookups == [A]
    assert message.reason == "recipient_suppressed_by_provider"
    assert not Suppression.objects.exists()


# --- whether it is made --------------------------------------------------------------


def test_the_claim_says_that_the_request_may_have_left_before_it_does() -> None:
    with CloudflareServer() as server, configured(server):
        assert claims.claim(queued(A).public_id) is not None

        assert server.connections == 0
    attempt = Attempt.objects.get()
    assert (attempt.phase, attempt.provider) == ("awaiting_reply", "cloudflare")


def test_a_worker_frozen_before_the_call_makes_none_when_too_little_is_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Row 33: what a person has resolved meanwhile is not sent."""
    clock = elapsed.elapsed_clock
    frozen = 0.0
    monkeypatch.setattr(claims, "elapsed_clock", lambda: clock() + frozen)

    def freeze() -> None:
        nonlocal frozen
        frozen = 280.0  # as after minutes of SIGSTOP

    points.planted["deliver.claimed"] = freeze
    with CloudflareServer() as server:
        message = sent_by(server, queued(A))

        assert server.connections == 0
    assert message.status == "queued"
    assert Attempt.objects.get().code == "claim_too_old"


def test_a_sent_copy_that_cannot_be_read_is_no_doubt() -> None:
    message = queued(A)
    with CloudflareServer() as server, configured(server):
        claim = claims.claim(message.public_id)
        assert claim is not None
        broken = claim.outgoing.mime + b"\xff"  # not of our composer
        object.__setattr__(claim.outgoing, "mime", broken)
        claims.record(claim, deliver._call(claim))

        assert server.connections == 0
    message.refresh_from_db()
    assert message.status == "queued"
    assert Attempt.objects.get().code == "not_composed"


def test_marketing_that_would_leave_by_cloudflare_is_rejected_before_any_call() -> None:
    with CloudflareServer() as server:
        message = sent_by(server, queued(A, kind=MessageKind.MARKETING))

        assert server.connections == 0
    assert (message.status, message.reason) == ("rejected", "marketing_needs_ses")
    assert statuses(message) == {A: "rejected"}
    assert events_of(message) == ["message.rejected"]
    assert Attempt.objects.count() == 0
    assert_units_add_up(message)


def test_a_test_tenants_mail_never_reaches_cloudflare() -> None:
    message = queued(A)
    message.tenant.mode = TenantMode.TEST
    message.tenant.save()
    with CloudflareServer() as server:
        sent_by(server, message)

        assert server.connections == 0
    assert message.provider == "loopback"


def test_without_an_account_mail_waits_and_leaves_when_there_is_one(
    later: Later,
) -> None:
    message = queued(A)
    with CloudflareServer() as server:
        sent_by(server, message, PM_CF_ACCOUNT_ID="", PM_CF_API_TOKEN="")
        assert (message.status, server.connections) == ("queued", 0)
        assert OutboundState.objects.get().backoff_n == 1

        later(70)
        assert sent_by(server, message).status == "submitted"


# --- its time ------------------------------------------------------------------------


def test_a_look_up_of_the_name_that_hangs_ends_at_the_deadline(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    released = threading.Event()

    def hang(*args: object, **options: object) -> None:
        released.wait(20)
        raise socket.gaierror(-3, "Temporary failure in name resolution")

    monkeypatch.setattr(socket, "getaddrinfo", hang)
    shorten(monkeypatch, 0.3)
    message = queued(A)
    with CloudflareServer() as server:
        started = time.monotonic()
        sent_by(server, message)

        assert time.monotonic() - started < 8
        released.set()
    assert (message.status, message.reason) == ("uncertain", "transport_timeout")


def test_a_shortened_claim_shortens_the_call() -> None:
    message = queued(A)
    with CloudflareServer("hang") as server:
        started = time.monotonic()
        sent_by(server, message, PM_CLAIM_SECONDS=1.0)

        assert time.monotonic() - started < 8
    assert (message.status, message.reason) == ("uncertain", "transport_timeout")


def test_an_answer_without_end_is_no_answer() -> None:
    with CloudflareServer(Say(200, "x" * 2_000_000)) as server:
        message = sent_by(server, queued(A))

        assert server.connections == 1
    assert message.status == "uncertain"
    assert Attempt.objects.get().detail == "an answer without end"


def test_r05_two_that_are_definite_are_no_doubt_and_the_third_is(later: Later) -> None:
    message = queued(A)
    throttled = error(429, "email.sending.error.throttled")
    upstream = error(503, "email.sending.error.authentication.upstream")
    with CloudflareServer(throttled, upstream) as server:
        assert sent_by(server, message).status == "queued"
        later(15)
        assert sent_by(server, message).status == "queued"
        later(150)

    sent_by(server, message)

    assert (message.status, message.reason) == (
        "uncertain",
        "transport_connection_lost",
    )
    results = Attempt.objects.order_by("n").values_list("result", flat=True)
    assert list(results) == ["retry", "retry", "uncertain"]
    assert server.connections == 2


# --- what its answer brings ----------------------------------------------------------


def apply_all() -> list[str | None]:
    """Apply what stands in the inbox, as the worker would."""
    return [apply_event(row.id) for row in ProviderEvent.objects.order_by("id")]


@pytest.mark.parametrize("message_id", ["cf-1", None])
def test_a_recipient_that_bounced_at_once_is_a_hard_bounce_at_once(
    message_id: str | None,
) -> None:
    # Given two messages that nothing but their ids tells apart
    like, message = queued(A, B), queued(A, B)
    bounced = taken([A], message_id, permanent_bounces=[B.upper()])
    with CloudflareServer(taken([A, B], None), bounced) as server:
        sent_by(server, like)
        sent_by(server, message)

    stored = ProviderEvent.objects.get()
    assert stored.event_id == f"cf:{message.public_id}:{B}:sync"
    assert (stored.source, stored.state) == ("cloudflare", "pending")
    assert stored.due_at is not None
    assert stored.due_at <= database_now()
    assert apply_all() == ["applied"]
    assert apply_all() == [None]

    assert statuses(message) == {A: "submitted", B: "bounced"}
    assert statuses(like) == {A: "submitted", B: "submitted"}
    delivery = message.deliveries.get(address=B)
    assert (delivery.bounce_type, delivery.reason) == ("hard", "hard_bounce")
    assert Suppression.objects.get().reason == "hard_bounce"
    assert events_of(message) == [
        "message.sent",
        "message.bounced",
        "suppression.created",
    ]
    assert_units_add_up(message)


def test_recipients_that_the_provider_dropped_are_suppressed_and_cost_nothing() -> None:
    answer = taken([A], "cf-1", suppressed_recipients=[B])
    with CloudflareServer(answer) as server:
        message = sent_by(server, queued(A, B))

    assert statuses(message) == {A: "submitted", B: "suppressed"}
    assert message.deliveries.get(address=B).charged_at is None
    assert Suppression.objects.get().reason == "provider"
    assert_units_add_up(message)


def test_an_acceptance_that_comes_late_brings_its_bounces_along() -> None:
    # Given a call whose claim ran out before its answer came
    message = queued(A, B)
    with CloudflareServer(taken([A], "cf-1", permanent_bounces=[B])) as server:
        with configured(server):
            claim = claims.claim(message.public_id)
            assert claim is not None
            result = deliver._call(claim)
        OutboundState.objects.update(claimed_at="2026-01-01T00:00:00Z")
        sweep_claims()
        assert isinstance(result, Accepted)

        claims.record(claim, result)

    assert apply_all() == ["applied"]
    message.refresh_from_db()
    assert statuses(message) == {A: "submitted", B: "bounced"}
    assert "reconciled" in message.flags
    assert_units_add_up(message)


def test_no_other_recipient_and_no_token_stands_in_what_is_kept() -> None:
    words = f"E_VALIDATION_ERROR: {A} and {HIDDEN}\r\nwith {TOKEN}\x00 " + "x" * 900
    with CloudflareServer(error(400, words, "E_VALIDATION_ERROR")) as server:
        message = sent_by(server, queued(A, bcc=(HIDDEN,)))

    detail = Attempt.objects.get().detail or ""
    assert detail.startswith("HTTP 400 E_VALIDATION_ERROR E_VALIDATION_ERROR: *** and")
    assert len(detail) == 512
    for word in (A, HIDDEN, TOKEN, "\n", "\x00"):
        assert word not in detail
        assert word not in (message.deliveries.get(address=A).smtp_response or "")


@pytest.mark.parametrize("message_id", ["\x00", "\ud800", "a b", "", 7, "x" * 3000])
def test_an_id_that_can_be_none_is_none(message_id: object) -> None:
    with CloudflareServer(taken([A], message_id)) as server:
        message = sent_by(server, queued(A))

    assert (message.status, message.provider_message_id) == ("submitted", None)


def test_words_that_no_column_holds_change_no_outcome() -> None:
    with CloudflareServer(error(429, "\x00\ud800.throttled", "\x00")) as server:
        message = sent_by(server, queued(A))

    assert message.status == "queued"
    assert Attempt.objects.get().code == "??.throttled"


def test_an_unknown_error_says_what_it_was_and_a_person_can_resolve_it() -> None:
    with CloudflareServer(error(500, "email.sending.error.internal_server")) as server:
        message = sent_by(server, queued(A))

    assert Attempt.objects.get().detail == (
        "HTTP 500 10000 email.sending.error.internal_server"
    )
    resolve(message.public_id, outcome="not_sent")
    message.refresh_from_db()
    assert message.status == "failed"


def test_the_first_quota_error_opens_the_alert_and_the_next_renews_it() -> None:
    limit = error(429, "no", "E_DAILY_LIMIT_EXCEEDED")
    with CloudflareServer(limit, limit) as server:
        sent_by(server, queued(A))
        sent_by(server, queued(B))

    alert = Alert.objects.get()
    assert (alert.name, alert.subject) == ("provider_quota", "cloudflare")
    assert alert.last_at > alert.first_at


@pytest.mark.parametrize(
    ("answer", "alert"),
    [
        (error(429, "no", "E_DAILY_LIMIT_EXCEEDED"), "provider_quota"),
        (error(403, "email.sending_disabled"), "cloudflare_sending_paused"),
    ],
    ids=["quota", "paused"],
)
def test_an_accounts_alert_is_over_when_it_takes_mail_and_has_been_silent_for_a_while(
    answer: Say, alert: str, later: Later
) -> None:
    with CloudflareServer(answer) as server:
        sent_by(server, queued(A))

        sent_by(server, queued(A))  # the account lets one through
        assert Alert.objects.get(name=alert).resolved_at is None

        later(15 * 60 + 1)
        sent_by(server, queued(A))
        assert Alert.objects.get(name=alert).resolved_at is not None


# --- TLS -----------------------------------------------------------------------------


def _serve_tls(context: ssl.SSLContext, listener: socket.socket) -> list[bytes]:
    """Answer one request over TLS; return what was read after the handshake."""
    read: list[bytes] = []

    def serve() -> None:
        sock, _ = listener.accept()
        try:
            with context.wrap_socket(sock, server_side=True) as secured:
                read.append(secured.recv(65536))
                secured.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
        except OSError:
            sock.close()

    threading.Thread(target=serve, daemon=True).start()
    return read


def _ask(port: int) -> Answer:
    return http_once.ask(
        "GET", f"https://127.0.0.1:{port}/", headers={}, deadline=Deadline(10)
    )


def test_a_verified_server_is_spoken_to_over_tls(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    trusting = ssl.create_default_context(cadata=authority().pem)
    monkeypatch.setattr(http_once, "_verified", lambda: trusting)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        _serve_tls(good_context(), listener)

        assert _ask(listener.getsockname()[1]).status == 200


@pytest.mark.parametrize("kind", ["self_signed", "other_name", "expired"])
def test_nothing_is_said_to_a_server_that_is_not_verified(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    trusting = ssl.create_default_context(cadata=authority().pem)
    monkeypatch.setattr(http_once, "_verified", lambda: trusting)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        read = _serve_tls(bad_context(kind), listener)

        with pytest.raises(http_once.NoAnswer, match="ConnectError"):
            _ask(listener.getsockname()[1])
    assert read == []


def test_no_certificate_is_trusted_but_the_systems() -> None:
    context = http_once._verified()

    assert context.verify_mode == ssl.CERT_REQUIRED
    assert context.check_hostname
