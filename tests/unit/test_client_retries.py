"""When the Python client repeats a request, when it stops, and what it then says."""

import logging
import pickle
import ssl
from datetime import timedelta
from typing import Any

import httpx
import pytest

from pylota_client import (
    BillingLimit,
    Client,
    DailyCapReached,
    DomainNotReady,
    IdempotencyConflict,
    IdentityPaused,
    InvalidRequest,
    NoAnswer,
    NotFound,
    PermissionDenied,
    PylotaError,
    RateLimited,
    RequestInProgress,
    ServerFault,
    TenantSuspended,
    ThreadBusy,
    Unauthenticated,
    UnexpectedAnswer,
)
from tests.support.python_client import (
    API_KEY,
    IDENTITY,
    MESSAGE,
    START,
    Step,
    accepted,
    answer,
    html,
    message_json,
    refused,
    scripted,
)

CUT = httpx.ReadError("connection reset")
CLOSED = httpx.ConnectError("connection refused")
SOON = (START + timedelta(seconds=120)).isoformat()
TOMORROW = (START + timedelta(hours=15)).isoformat()

# what comes first -> how long the client waits before it asks again
REPEATED: dict[str, tuple[Step, float]] = {
    "no connection": (CLOSED, 0.5),
    "a connection cut": (CUT, 0.5),
    "no answer in time": (httpx.ReadTimeout("slow"), 0.5),
    "half an answer": (httpx.RemoteProtocolError("incomplete"), 0.5),
    "an answer that does not unpack": (httpx.DecodingError("gzip"), 0.5),
    "a bug of the server": (refused(500, "internal_error", retryable=True), 0.5),
    "the server is away": (refused(503, "unavailable", retryable=True), 0.5),
    "the server was too slow": (refused(504, "timeout", retryable=True), 0.5),
    "a gateway's 502": (html(502), 0.5),
    "a gateway's 503 with a time": (html(503, **{"Retry-After": "7"}), 7.7),
    "a gateway's 503 with a date": (
        html(503, **{"Retry-After": "Mon, 02 Nov 2026 09:00:30 GMT"}),
        31.0,
    ),
    "a gateway's 503 with a year of twenty digits": (
        html(503, **{"Retry-After": f"Mon, 02 Nov {'9' * 20} 09:00:30 GMT"}),
        0.5,
    ),
    "a gateway's 429": (html(429, **{"Retry-After": "3"}), 3.3),
    "a rate limit, in its header": (
        answer(
            429, refused(429, "rate_limited", retryable=True).json(), Retry_After="9"
        ),
        9.9,
    ),
    "a rate limit, in its details": (
        refused(429, "rate_limited", retryable=True, retry_after=4, bucket="send"),
        4.4,
    ),
    "a rate limit without a time": (refused(429, "rate_limited", retryable=True), 0.5),
    "a cap that resets soon": (
        refused(429, "daily_cap_reached", retryable=True, resets_at=SOON),
        121.0,
    ),
    "the longest of all that is asked": (
        answer(
            429,
            refused(
                429, "daily_cap_reached", retryable=True, resets_at=SOON, retry_after=5
            ).json(),
            Retry_After="60",
        ),
        121.0,
    ),
    "a thread in use": (
        refused(409, "thread_busy", retryable=True, retry_after=4),
        4.4,
    ),
    "no time at all": (refused(409, "thread_busy", retryable=True, retry_after=0), 0.5),
    "a time that is none": (
        refused(503, "unavailable", retryable=True, retry_after="soon", resets_at=7),
        0.5,
    ),
    "the same key, still running": (
        refused(409, "request_in_progress", retryable=True),
        0.5,
    ),
    "a new code of the future": (refused(503, "moon_in_the_way", retryable=True), 0.5),
    "a 5xx that forgot to say": (refused(503, "unavailable", retryable=None), 0.5),
}

# what comes -> the error that is raised at once, and whether the send may be accepted
RAISED: dict[str, tuple[Step, type[PylotaError], bool]] = {
    "a wrong field": (refused(400, "invalid_request"), InvalidRequest, False),
    "a wrong address": (refused(400, "address_invalid"), InvalidRequest, False),
    "too much": (refused(413, "payload_too_large"), InvalidRequest, False),
    "a wrong API key": (refused(401, "unauthenticated"), Unauthenticated, False),
    "a revoked API key": (refused(401, "key_revoked"), Unauthenticated, False),
    "a missing scope": (refused(403, "permission_denied"), PermissionDenied, False),
    "a suspended tenant": (refused(403, "tenant_suspended"), TenantSuspended, False),
    "an unknown identity": (refused(404, "identity_not_found"), NotFound, False),
    "an unknown anything": (refused(404, "parcel_not_found"), NotFound, False),
    "another body": (refused(409, "idempotency_conflict"), IdempotencyConflict, False),
    "a paused identity": (refused(409, "identity_paused"), IdentityPaused, False),
    "an allowance used up": (refused(402, "billing_limit"), BillingLimit, False),
    "a code of the future": (refused(409, "moon_is_full"), PylotaError, False),
    "a domain that a person must finish": (
        refused(409, "domain_not_ready", retryable=True),
        DomainNotReady,
        False,
    ),
    "a 5xx that will not pass": (refused(503, "unavailable"), ServerFault, True),
    "a 429 that will not pass": (
        refused(429, "daily_cap_reached"),
        DailyCapReached,
        False,
    ),
    "a cap that resets tomorrow": (
        refused(429, "daily_cap_reached", retryable=True, resets_at=TOMORROW),
        DailyCapReached,
        False,
    ),
    "a limit of an hour": (
        refused(429, "rate_limited", retryable=True, retry_after=3600),
        RateLimited,
        False,
    ),
    "another server's 404": (html(404), UnexpectedAnswer, False),
    "another server's 403": (html(403), UnexpectedAnswer, False),
    "another server's JSON": (answer(404, {"error": "nope"}), UnexpectedAnswer, False),
    "a redirect": (
        html(307, Location="https://elsewhere.example/v1/"),
        UnexpectedAnswer,
        False,
    ),
    "a page with 200": (html(200), UnexpectedAnswer, True),
    "JSON that is no message": (answer(202, {"ok": True}), UnexpectedAnswer, True),
    "JSON that is a list": (answer(202, []), UnexpectedAnswer, True),
}


def send(client: Any, **given: Any) -> Any:
    return client.identity(IDENTITY).send(
        to="jo@example.net", subject="Hello", text="Hi", **given
    )


@pytest.mark.parametrize("name", REPEATED)
def test_what_passes_by_itself_is_repeated_under_the_same_key(name: str) -> None:
    first, wait = REPEATED[name]
    client, server, clock = scripted([first, accepted(deduplicated=True)])

    sent = send(client)

    assert clock.slept == pytest.approx([wait])
    assert server.keys == [sent.idempotency_key] * 2
    assert server.seen[0].content == server.seen[1].content
    assert (sent.id, sent.deduplicated) == (MESSAGE, True)


@pytest.mark.parametrize("name", RAISED)
def test_what_does_not_pass_is_raised_at_once(name: str) -> None:
    only, kind, may_be_accepted = RAISED[name]
    client, server, clock = scripted([only])

    with pytest.raises(PylotaError) as caught:
        send(client, idempotency_key="order-7")

    assert (type(caught.value), len(server.seen), clock.slept) == (kind, 1, [])
    assert caught.value.may_be_accepted is may_be_accepted
    assert caught.value.idempotency_key == "order-7"
    assert "order-7" in str(caught.value)


@pytest.mark.parametrize("name", REPEATED)
def test_reading_is_repeated_likewise(name: str) -> None:
    first, wait = REPEATED[name]
    client, server, clock = scripted([first, answer(200, message_json())])

    found = client.identity(IDENTITY).get(MESSAGE)

    assert found.id == MESSAGE
    assert clock.slept == pytest.approx([wait])
    assert server.keys == [None, None]


def test_waits_double_up_to_a_minute_and_end_near_ten_minutes() -> None:
    client, server, clock = scripted([html(502)])

    with pytest.raises(UnexpectedAnswer) as caught:
        send(client)

    assert clock.slept[:8] == [0.5, 1, 2, 4, 8, 16, 32, 60]
    assert set(clock.slept[7:]) == {60}
    assert 540 <= clock.passed <= 600
    assert caught.value.gave_up
    assert caught.value.attempts == len(server.seen) == len(clock.slept) + 1
    assert len(set(server.keys)) == 1


def test_a_server_that_asks_for_no_wait_again_and_again_is_left_in_peace() -> None:
    at_once = refused(429, "rate_limited", retryable=True, retry_after=0)
    client, _, clock = scripted([at_once] * 5 + [accepted()])

    send(client)

    assert clock.slept == [0.5, 1, 2, 4, 8]


def test_time_in_attempts_counts_and_the_last_one_is_cut_short() -> None:
    def slow() -> httpx.Response:
        clock.passed += 39.0
        raise httpx.ReadTimeout("slow")

    client, server, clock = scripted([slow], give_up_after=60)

    with pytest.raises(NoAnswer):
        send(client)

    assert clock.passed < 61 + 39
    timeouts = [request.extensions["timeout"]["read"] for request in server.seen]
    assert timeouts == [40, pytest.approx(20.5)]


def test_the_waits_of_two_clients_differ_by_up_to_a_half() -> None:
    client, _, clock = scripted([CUT, CUT, accepted()])
    clock.spread = lambda: 0.0  # type: ignore[method-assign]

    send(client)

    assert clock.slept == [0.25, 0.5]


def test_a_generated_key_is_new_for_each_logical_send() -> None:
    client, server, _ = scripted([CUT, accepted()])

    keys = [send(client).idempotency_key for _ in range(3)]

    assert server.keys == [keys[0], *keys]
    assert len(set(keys)) == 3


def test_a_given_key_is_used() -> None:
    client, server, _ = scripted([accepted()])

    sent = send(client, idempotency_key="booking-2291")

    assert sent.idempotency_key == "booking-2291"
    assert server.keys == ["booking-2291"]


@pytest.mark.parametrize("key", ["", " a", "a ", "é", "a\nb", "a" * 256])
def test_a_key_that_no_header_can_carry_is_refused_here(key: str) -> None:
    client, server, _ = scripted([accepted()])

    with pytest.raises(ValueError, match="idempotency key"):
        send(client, idempotency_key=key)

    assert server.seen == []


def test_giving_up_in_doubt_says_how_to_go_on() -> None:
    client, server, _ = scripted([CUT])

    with pytest.raises(NoAnswer) as caught:
        send(client)

    error = caught.value
    assert (error.may_be_accepted, error.gave_up, error.retryable) == (True, True, True)
    assert error.idempotency_key == server.keys[0]
    assert isinstance(error.__cause__, httpx.ReadError)
    assert str(error) == (
        "No answer: ReadError: connection reset [no_answer] "
        "Check base_url, the network, and that the server runs. "
        f"Gave up after {error.attempts} attempts in 544 s. "
        "The send may have been accepted: repeat it with the same content and "
        f"idempotency_key={error.idempotency_key!r}; that makes no second email."
    )


def test_giving_up_without_a_doubt_says_so() -> None:
    client, _, _ = scripted([CLOSED])

    with pytest.raises(NoAnswer) as caught:
        send(client, idempotency_key="k")

    assert not caught.value.may_be_accepted
    assert str(caught.value).endswith(
        "No attempt of this call was accepted; its key is idempotency_key='k'."
    )


def test_a_doubt_stays_when_a_later_attempt_is_refused() -> None:
    client, _, _ = scripted([CUT, refused(401, "key_revoked")])

    with pytest.raises(Unauthenticated) as caught:
        send(client)

    assert caught.value.may_be_accepted
    assert caught.value.attempts == 2


def test_a_request_still_running_at_the_end_is_a_doubt() -> None:
    client, _, _ = scripted([refused(409, "request_in_progress", retryable=True)])

    with pytest.raises(RequestInProgress) as caught:
        send(client)

    assert caught.value.may_be_accepted


def test_a_wait_beyond_the_time_left_is_raised_with_what_the_server_asked() -> None:
    busy = refused(409, "thread_busy", retryable=True, retry_after=50)
    client, server, clock = scripted([busy], give_up_after=60)

    with pytest.raises(ThreadBusy) as caught:
        send(client)

    assert (len(server.seen), clock.slept) == (2, [51.0])
    assert caught.value.retry_after == 50
    assert "Gave up after 2 attempts in 51 s; the server asks for 50 s more." in str(
        caught.value
    )


def test_a_cap_that_resets_tomorrow_tells_when() -> None:
    cap = refused(429, "daily_cap_reached", retryable=True, resets_at=TOMORROW)
    client, _, _ = scripted([cap])

    with pytest.raises(DailyCapReached) as caught:
        send(client)

    assert caught.value.resets_at == START + timedelta(hours=15)
    assert caught.value.retry_after == 15 * 3600
    assert caught.value.gave_up


def test_a_refusal_carries_all_that_the_server_said() -> None:
    errors = [{"path": "to.0", "message": "not an address"}]
    client, _, _ = scripted([refused(400, "invalid_request", errors=errors)])

    with pytest.raises(InvalidRequest) as caught:
        send(client)

    error = caught.value
    assert (error.code, error.message, error.fix) == (
        *("invalid_request", "It is so.", "Do that."),
    )
    assert (error.status, error.request_id, error.retryable) == (400, "req_1", False)
    assert [(each.path, each.message) for each in error.errors] == [
        ("to.0", "not an address")
    ]


def test_a_conflict_names_the_original() -> None:
    conflict = refused(409, "idempotency_conflict", original_message_id=MESSAGE)
    client, _, _ = scripted([conflict])

    with pytest.raises(IdempotencyConflict) as caught:
        send(client)

    assert caught.value.original_message_id == MESSAGE


def test_a_certificate_that_is_not_trusted_is_raised_at_once() -> None:
    untrusted = httpx.ConnectError("certificate verify failed")
    untrusted.__cause__ = ssl.SSLCertVerificationError("self-signed")
    client, server, _ = scripted([untrusted])

    with pytest.raises(NoAnswer, match="Trust the certificate's issuer"):
        send(client)

    assert len(server.seen) == 1


def test_a_redirect_is_named_and_not_followed() -> None:
    client, server, _ = scripted([html(301, Location="https://elsewhere.example/")])

    with pytest.raises(UnexpectedAnswer, match=r"names https://elsewhere\.example/"):
        send(client)

    assert [request.url.host for request in server.seen] == ["mail.example"]


def test_a_dry_run_is_repeated_and_sends_no_key() -> None:
    result = {
        "would_send": True,
        "recipients": [
            {"address": "jo@example.net", "field": "to", "status": "queued"}
        ],
    }
    client, server, _ = scripted([CUT, answer(200, result)])

    found = client.identity(IDENTITY).dry_run.send(to="jo@example.net", subject="Hi")

    assert found.would_send
    assert [each.status for each in found.recipients] == ["queued"]
    assert [request.url.query for request in server.seen] == [b"dry_run=true"] * 2
    assert server.keys == [None, None]


def test_an_error_survives_the_way_to_another_process() -> None:
    client, _, _ = scripted([refused(409, "idempotency_conflict")])

    with pytest.raises(IdempotencyConflict) as caught:
        send(client, idempotency_key="k")

    again = pickle.loads(pickle.dumps(caught.value))  # noqa: S301  our own
    assert type(again) is IdempotencyConflict
    assert (str(again), again.idempotency_key) == (str(caught.value), "k")


def test_the_api_key_is_in_no_text(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    client, _, _ = scripted([CUT, html(503), refused(401, "unauthenticated")])

    with pytest.raises(Unauthenticated) as caught:
        send(client)

    texts = (repr(client), repr(client.identity(IDENTITY)), repr(caught.value))
    assert "failed (no_answer), again in" in caplog.text
    for text in (*texts, str(caught.value), caplog.text):
        assert "opensesame" not in text
    assert "jo@example.net" not in caplog.text


@pytest.mark.parametrize("key", ["", "a b", "pmk_é", API_KEY + "\n"])
def test_an_api_key_that_no_header_can_carry_is_refused_without_showing_it(
    key: str,
) -> None:
    with pytest.raises(ValueError, match="an API key is") as caught:
        Client("http://mail.example", key)

    assert not key or key not in str(caught.value)
