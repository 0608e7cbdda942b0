"""Relays that speak out of turn, lie or babble: no guess, no answer to another step."""

import pytest

from outbound.transports.base import Accepted, RetryClass, RetryLater
from outbound.transports.smtp_session import LONGEST_REPLY
from tests.support.certificates import authority
from tests.support.relays import copies, outgoing, relay, transport
from tests.support.smtp_script import Plan, Script
from tests.support.smtp_server import SmtpServer

A, B = "a@y.test", "b@y.test"


def assert_not_sent(plan: Plan, *, code: str) -> None:
    """Assert that a call to such a relay is tried later, and blames nobody."""
    with SmtpServer(Script(always=plan)) as server:
        result = transport().send(outgoing(server, A, B))

        assert isinstance(result, RetryLater)
        assert (result.retry_class, result.code) == (RetryClass.RELAY, code)
        assert result.refused == ()
        assert (server.copies.total(), len(server.connections)) == (0, 1)


@pytest.mark.parametrize(
    "plan",
    [
        {"greeting": "220 relay.test\r\n250 ok"},
        {"ehlo": "250-relay.test\r\n250 AUTH PLAIN\r\n535 5.7.8 no"},
        {"auth": "235 2.7.0 ok\r\n550 5.7.1 no"},
        {"mail": "250 2.1.0 ok\r\n550 5.1.1 no such user"},
        {"rcpt": {A: "250 2.1.5 ok\r\n550 5.1.1 no such user", B: "250 2.1.5 ok"}},
        {"rcpt": {A: "250 2.1.5 ok", B: "250 2.1.5 ok\r\n354 go on"}},
        {"data": "354 go on\r\n250 2.0.0 queued"},
        {"data": "354 go on\r\n354 go on"},
    ],
    ids=lambda plan: next(iter(plan)),
)
def test_a_reply_to_nothing_answers_no_later_command(plan: Plan) -> None:
    """Or a stray 550 would refuse the next recipient, and a stray 250 the dot."""
    assert_not_sent(plan, code="connection_lost")


@pytest.mark.parametrize(
    ("plan", "code"),
    [
        ({"data": "250 2.0.0 queued"}, "250"),
        ({"mail": "354 go on"}, "354"),
        ({"rcpt": "252 cannot say"}, "252"),
        ({"greeting": "250 relay.test"}, "250"),
        ({"auth": "250 ok"}, "250"),
        ({"ehlo": "220 relay.test"}, "220"),
        ({"mail": "250-ok\r\n550 5.1.0 no"}, "connection_lost"),
        ({"mail": "2500 ok"}, "connection_lost"),
        ({"mail": "\x00\x00\x00"}, "connection_lost"),
        ({"mail": "HTTP/1.1 250 ok"}, "connection_lost"),
        ({"mail": "250-" + "x" * (LONGEST_REPLY + 1)}, "connection_lost"),
        ({"mail": "250-x\r\n" * 20_000 + "250 ok"}, "connection_lost"),
    ],
    ids=lambda given: str(given)[:40],
)
def test_an_answer_that_fits_no_question_is_tried_later(plan: Plan, code: str) -> None:
    assert_not_sent(plan, code=code)


@pytest.mark.parametrize(
    "reply",
    [
        "250-ok\r\n" * 1000 + "250 ok",
        "250 2.0.0 \x00\x01\x7f ok",
        "250 2.0.0 g\u00e9n\u00e9reux \ud83d\ude00".encode(
            "utf-16", "surrogatepass"
        ).decode("utf-16"),
        "250",
        "250-\r\n250 ",
    ],
    ids=["a thousand lines", "control characters", "beyond ascii", "bare", "empty"],
)
def test_whatever_else_a_reply_says_its_code_counts(reply: str) -> None:
    plan = dict.fromkeys(("mail", "rcpt", "dot"), reply)
    with SmtpServer(Script(always=plan)) as server:
        result = transport().send(outgoing(server))

        assert isinstance(result, Accepted)
        assert result.detail.isprintable()
        assert len(result.detail) <= 512
        assert copies(server) == 1


def test_extensions_that_are_none_change_nothing() -> None:
    lies = (
        "SIZE",
        "SIZE many",
        "STARTTLS",
        "AUTH=PLAIN",
        "8BITMIME",
        "\x00",
        "X" * 900,
    )
    with SmtpServer(Script(extensions=lies)) as server:
        assert isinstance(transport().send(outgoing(server)), Accepted)

        assert copies(server) == 1


def test_a_bundle_with_letters_beyond_ascii_still_vouches() -> None:
    bundle = f"# K\u00f6ln\n{authority().pem}"
    with SmtpServer() as server:
        result = transport().send(outgoing(server, relay=relay(server, ca=bundle)))

        assert isinstance(result, Accepted)
        assert copies(server) == 1


def test_a_fault_of_ours_before_the_dot_is_no_doubt() -> None:
    """Here a login that no octets stand for; nothing has been sent, whatever fails."""
    with SmtpServer() as server:
        broken = relay(server, username="\ud800")
        result = transport().send(outgoing(server, relay=broken))

        assert isinstance(result, RetryLater)
        assert (result.retry_class, result.code) == (RetryClass.RELAY, "call_broke")
        assert server.copies.total() == 0
