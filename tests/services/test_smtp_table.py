"""Each row of the SMTP table, against a real server over TLS, on both kinds of port."""

from collections.abc import Sequence
from typing import Any

import pytest

from outbound.transports.base import (
    Accepted,
    RecipientRefusal,
    Rejected,
    RejectReason,
    RetryClass,
    RetryLater,
    UncertainReason,
    Unknown,
)
from tests.support.relays import MESSAGE_ID, copies, outgoing, relay, transport
from tests.support.smtp_script import Script
from tests.support.smtp_server import SmtpServer

A, B, C = "a@y.test", "b@y.test", "c@y.test"
TLS = ("implicit", "starttls")


@pytest.fixture(params=TLS)
def tls(request: pytest.FixtureRequest) -> str:
    """TLS from the first octet, or STARTTLS."""
    kind: str = request.param
    return kind


def _script(tls: str, plan: dict[str, Any], **more: Any) -> Script:
    return Script(tls=tls, always=plan, **more)


def test_250_to_the_final_dot_is_accepted(tls: str) -> None:
    with SmtpServer(_script(tls, {"dot": "250 2.0.0 Ok: queued as 4F1"})) as server:
        result = transport().send(outgoing(server))

        assert result == Accepted(
            provider_message_id=f"smtp:127.0.0.1:{MESSAGE_ID}",
            rfc_message_id=MESSAGE_ID,
            detail="250 2.0.0 Ok: queued as 4F1",
        )
        assert copies(server) == 1
        (seen,) = server.connections
        hello = ["EHLO"] if tls == "implicit" else ["EHLO", "STARTTLS", "EHLO"]
        assert seen.verbs == [*hello, "AUTH", "MAIL", "RCPT", "DATA", "QUIT"]


def test_the_envelope_is_the_from_address_the_size_and_each_recipient(
    tls: str,
) -> None:
    with SmtpServer(_script(tls, {})) as server:
        message = outgoing(server, A, B)
        transport(ehlo_name="api.example.com").send(message)

        (mail,) = server.mails
        assert (mail.sender, mail.recipients) == ("from@x.test", [A, B])
        assert mail.parameters == f"SIZE={len(mail.content)}"
        assert mail.content == message.mime
        lines = [line for line, _ in server.connections[0].commands]
        assert "ehlo api.example.com" in lines


def test_size_is_named_only_to_a_relay_that_asks_for_it(tls: str) -> None:
    with SmtpServer(_script(tls, {}, size=None)) as server:
        transport().send(outgoing(server))

        assert server.mails[0].parameters == ""


@pytest.mark.parametrize(
    "offered", [("PLAIN", "LOGIN"), ("LOGIN", "PLAIN"), ("LOGIN",)]
)
def test_login_is_by_plain_or_by_login_when_that_is_all(
    tls: str, offered: Sequence[str]
) -> None:
    script = _script(tls, {}, auth=offered, users={"user": "open sesame"})
    with SmtpServer(script) as server:
        assert isinstance(transport().send(outgoing(server)), Accepted)

        (seen,) = server.connections
        assert seen.logins == [("user", "open sesame")]
        (auth,) = (line for line, _ in seen.commands if line.startswith("AUTH"))
        assert auth.split(" ")[1] == ("PLAIN" if "PLAIN" in offered else "LOGIN")
        # and nothing of it was said in clear
        assert b"AUTH" not in seen.clear


def test_a_login_with_letters_beyond_ascii_arrives_as_utf_8(tls: str) -> None:
    with SmtpServer(_script(tls, {})) as server:
        relay_ = relay(server, username="jörg", password="schlüssel☂")
        transport().send(outgoing(server, relay=relay_))

        assert server.connections[0].logins == [("jörg", "schlüssel☂")]


def test_a_relay_without_a_user_is_not_logged_in_to(tls: str) -> None:
    with SmtpServer(_script(tls, {})) as server:
        message = outgoing(server, relay=relay(server, username="", password=""))

        assert isinstance(transport().send(message), Accepted)
        assert "AUTH" not in server.connections[0].verbs


def test_a_relay_that_offers_no_login_we_speak_is_tried_later(tls: str) -> None:
    with SmtpServer(_script(tls, {}, auth=("CRAM-MD5",))) as server:
        result = transport().send(outgoing(server))

        assert isinstance(result, RetryLater)
        assert result.code == "auth_not_offered"
        assert server.connections[0].logins == []


def test_no_starttls_on_offer_is_a_refusal_and_no_credentials_are_sent() -> None:
    with SmtpServer(Script(tls="none")) as server:
        message = outgoing(server, relay=relay(server, implicit_tls=False))

        result = transport().send(message)

        assert isinstance(result, Rejected)
        assert result.reason == RejectReason.SENDER_DOMAIN_UNAVAILABLE
        assert result.issue == result.code == "smtp_tls_required"
        assert server.connections[0].verbs == ["EHLO", "QUIT"]


@pytest.mark.parametrize(
    "reply", ["535 5.7.8 bad credentials", "530 5.7.0 no", "500 what", "503 5.5.1 no"]
)
@pytest.mark.parametrize("offered", [("PLAIN",), ("LOGIN",)])
def test_5yz_to_auth_is_a_refusal_with_a_domain_issue(
    tls: str, reply: str, offered: Sequence[str]
) -> None:
    script = _script(tls, {"auth": reply}, auth=offered)
    with SmtpServer(script) as server:
        result = transport().send(outgoing(server))

        assert result == Rejected(
            RejectReason.SENDER_DOMAIN_UNAVAILABLE,
            code=reply[:3],
            detail=reply,
            issue="smtp_auth_failed",
        )
        assert "MAIL" not in server.connections[0].verbs


@pytest.mark.parametrize("stage", ["mail", "dot"])
@pytest.mark.parametrize("reply", ["550 5.7.1 not you", "552 5.3.4 too big", "599 x"])
def test_5yz_to_mail_or_to_the_dot_is_a_refusal(
    tls: str, stage: str, reply: str
) -> None:
    with SmtpServer(_script(tls, {stage: reply})) as server:
        result = transport().send(outgoing(server))

        assert result == Rejected(
            RejectReason.PROVIDER_VALIDATION, code=reply[:3], detail=reply
        )
        assert copies(server) == 0


@pytest.mark.parametrize(
    "stage", ["greeting", "ehlo", "auth", "mail", "rcpt", "data", "dot"]
)
@pytest.mark.parametrize("reply", ["451 4.7.1 later", "421 4.3.2 closing"])
def test_4yz_at_any_step_is_tried_later(tls: str, stage: str, reply: str) -> None:
    with SmtpServer(_script(tls, {stage: reply})) as server:
        result = transport().send(outgoing(server))

        assert isinstance(result, RetryLater)
        assert (result.retry_class, result.code) == (RetryClass.RELAY, reply[:3])
        assert reply in result.detail
        assert copies(server) == 0


@pytest.mark.parametrize("stage", ["greeting", "ehlo", "data"])
@pytest.mark.parametrize("reply", ["554 5.3.2 no", "502 5.5.1 what", "250 2.0.0 odd"])
def test_any_other_answer_before_the_dot_is_tried_later(
    tls: str, stage: str, reply: str
) -> None:
    if (stage, reply[:3]) == ("ehlo", "250"):
        reply = "220 2.0.0 odd"
    with SmtpServer(_script(tls, {stage: reply})) as server:
        result = transport().send(outgoing(server))

        assert isinstance(result, RetryLater)
        assert result.code == reply[:3]
        assert copies(server) == 0


@pytest.mark.parametrize("reply", ["454 4.7.0 not now", "501 5.5.4 no", "421 bye"])
def test_starttls_refused_is_tried_later_without_a_login(reply: str) -> None:
    with SmtpServer(_script("starttls", {"starttls": reply})) as server:
        result = transport().send(outgoing(server))

        assert isinstance(result, RetryLater)
        assert result.code == reply[:3]
        assert "AUTH" not in server.connections[0].verbs


def test_5yz_to_one_recipient_refuses_that_one_and_the_rest_goes(tls: str) -> None:
    plan = {"rcpt": {B: "550 5.1.1 no such user"}}
    with SmtpServer(_script(tls, plan)) as server:
        result = transport().send(outgoing(server, A, B, C))

        assert isinstance(result, Accepted)
        refusal = RecipientRefusal(B, "550", "550 5.1.1 no such user")
        assert (result.refused, result.deferred) == ((refusal,), ())
        assert [copies(server, r) for r in (A, B, C)] == [1, 0, 1]


def test_5yz_to_every_recipient_is_a_refusal_without_data(tls: str) -> None:
    plan = {"rcpt": {A: "550 5.1.1 no", B: "553 5.1.3 never"}}
    with SmtpServer(_script(tls, plan)) as server:
        result = transport().send(outgoing(server, A, B))

        assert isinstance(result, Rejected)
        assert (result.reason, result.code, result.detail) == (
            RejectReason.PROVIDER_VALIDATION,
            "550",
            "550 5.1.1 no",
        )
        assert [r.code for r in result.refused] == ["550", "553"]
        assert "DATA" not in server.connections[0].verbs


def test_4yz_to_one_recipient_defers_that_one_and_the_rest_goes(tls: str) -> None:
    plan = {"rcpt": {B: "451 4.2.1 busy"}}
    with SmtpServer(_script(tls, plan)) as server:
        result = transport().send(outgoing(server, A, B))

        assert isinstance(result, Accepted)
        assert (result.refused, result.deferred) == ((), (B,))
        assert [copies(server, r) for r in (A, B)] == [1, 0]


def test_4yz_to_every_recipient_ends_in_rset_and_quit_without_data(tls: str) -> None:
    plan = {"rcpt": {A: "450 4.2.1 busy", B: "452 4.2.2 full"}}
    with SmtpServer(_script(tls, plan)) as server:
        result = transport().send(outgoing(server, A, B))

        assert isinstance(result, RetryLater)
        assert (result.retry_class, result.code) == (RetryClass.RELAY, "450")
        assert server.connections[0].verbs[-4:] == ["RCPT", "RCPT", "RSET", "QUIT"]


def test_nobody_accepted_with_a_4yz_among_them_is_tried_later(tls: str) -> None:
    plan = {"rcpt": {A: "550 5.1.1 no", B: "452 4.2.2 full"}}
    with SmtpServer(_script(tls, plan)) as server:
        result = transport().send(outgoing(server, A, B))

        assert isinstance(result, RetryLater)
        assert result.code == "452"
        assert [r.address for r in result.refused] == [A]
        assert "DATA" not in server.connections[0].verbs


def test_421_to_a_later_recipient_ends_the_session_and_nothing_is_sent(
    tls: str,
) -> None:
    # Given a relay that closes shop at the second of three recipients
    with SmtpServer(_script(tls, {"rcpt": {B: "421 4.3.2 closing"}})) as server:
        result = transport().send(outgoing(server, A, B, C))

        # Then it is not one bad address, it is no session
        assert isinstance(result, RetryLater)
        assert (result.code, result.refused) == ("421", ())
        server.wait_until(lambda: server.open_now == 0)
        assert server.connections[0].verbs[-2:] == ["RCPT", "RCPT"]


@pytest.mark.parametrize("reply", ["451 4.3.0 later", "550 5.6.0 no"])
def test_refused_recipients_are_told_whatever_the_dot_is_answered(
    tls: str, reply: str
) -> None:
    plan = {"rcpt": {B: "550 5.1.1 no"}, "dot": reply}
    with SmtpServer(_script(tls, plan)) as server:
        result = transport().send(outgoing(server, A, B))

        assert isinstance(result, RetryLater | Rejected)
        assert [r.address for r in result.refused] == [B]


@pytest.mark.parametrize(
    ("act", "reason"),
    [
        ("drop", UncertainReason.CONNECTION_LOST),
        ("reset", UncertainReason.CONNECTION_LOST),
        ("half:250 2.0.0 ok", UncertainReason.CONNECTION_LOST),
        ("half:451 4.3.0 later", UncertainReason.CONNECTION_LOST),
        ("half:550-5.6.0 no\r\n550 5.6", UncertainReason.CONNECTION_LOST),
        ("half:250-ok\r\n", UncertainReason.CONNECTION_LOST),
        ("250-ok\r\n451 not", UncertainReason.CONNECTION_LOST),
        ("ok", UncertainReason.CONNECTION_LOST),
        ("354 go on", UncertainReason.CONNECTION_LOST),
        ("251 2.0.0 unlisted", UncertainReason.CONNECTION_LOST),
        ("hang", UncertainReason.TIMEOUT),
        ("stuck:250 2.0.0 ok", UncertainReason.TIMEOUT),
        ("stuck:451 4.3.0 later", UncertainReason.TIMEOUT),
        ("drip", UncertainReason.TIMEOUT),
    ],
)
def test_after_the_dot_anything_but_a_complete_answer_is_unknown(
    tls: str, act: str, reason: UncertainReason
) -> None:
    with SmtpServer(_script(tls, {"dot": act})) as server:
        is_silent = reason == UncertainReason.TIMEOUT
        seconds = 0.5 if is_silent else 30
        result = transport(final_seconds=seconds).send(outgoing(server))

        assert isinstance(result, Unknown)
        assert result.reason == reason
        assert len(server.mails) == len(server.connections) == 1


@pytest.mark.parametrize(
    "act", ["drop", "reset", "hang", "421 4.3.2 closing", "half", "drip", "ok"]
)
def test_a_failing_quit_after_the_250_changes_nothing(tls: str, act: str) -> None:
    with SmtpServer(_script(tls, {"quit": act})) as server:
        result = transport().send(outgoing(server))

        assert isinstance(result, Accepted)
        assert copies(server) == 1
        assert len(server.connections) == 1


def test_replies_are_kept_without_secrets_and_without_other_recipients() -> None:
    # Given a relay that repeats what it was told
    echo = "535 5.7.8 what is 'AUTH PLAIN AHVzZXIAb3BlbiBzZXNhbWU=' (open sesame)"
    with SmtpServer(Script(always={"auth": echo})) as server:
        result = transport().send(outgoing(server))

        assert isinstance(result, Rejected)
        assert result.detail == "535 5.7.8 what is 'AUTH PLAIN ***' (***)"

    plan = {"rcpt": {A: f"550 5.1.1 <{A}> unknown, like <{B.upper()}>"}}
    with SmtpServer(Script(always=plan)) as server:
        result = transport().send(outgoing(server, A, B))

        assert isinstance(result, Accepted)
        assert result.refused[0].detail == f"550 5.1.1 <{A}> unknown, like <***>"
