"""What users of other systems reported, tried on our SMTP transport (R08 to R41)."""

import itertools
import ssl
import time
from typing import Any

import pytest

from outbound.transports.base import (
    Accepted,
    OutgoingMessage,
    Phase,
    RetryClass,
    RetryLater,
    TransportResult,
    UncertainReason,
    Unknown,
)
from outbound.transports.smtp_dialogue import verified_context
from tests.support.certificates import authority, make_authority
from tests.support.relays import CONTENT, copies, outgoing, relay, transport
from tests.support.smtp_script import Script
from tests.support.smtp_server import SmtpServer
from tests.support.waiting import until

A, B, C = "a@y.test", "b@y.test", "c@y.test"


@pytest.mark.parametrize("act", ["drop", "reset"])
def test_r08_a_relay_that_reads_the_dot_and_leaves_is_not_asked_again(act: str) -> None:
    with SmtpServer(Script(always={"dot": act})) as server:
        result = transport().send(outgoing(server))

        assert isinstance(result, Unknown)
        assert result.reason == UncertainReason.CONNECTION_LOST
        assert (copies(server), len(server.connections)) == (1, 1)


def test_r09_a_relay_that_drops_ten_times_gets_the_mail_at_the_eleventh() -> None:
    script = Script(connections=[{"connect": "late:0.015;drop"}] * 10)
    with SmtpServer(script) as server:
        results = [transport().send(outgoing(server)) for _ in range(11)]

        assert all(
            isinstance(result, RetryLater) and result.retry_class == RetryClass.RELAY
            for result in results[:10]
        )
        assert isinstance(results[10], Accepted)
        assert copies(server) == 1


def test_r11_throttling_at_the_dot_is_never_counted_as_sent() -> None:
    script = Script(connections=[{"dot": "454 4.7.0 Throttling"}])
    with SmtpServer(script) as server:
        first = transport().send(outgoing(server))
        assert isinstance(first, RetryLater)
        assert (first.retry_class, first.code) == (RetryClass.RELAY, "454")
        assert copies(server) == 0

        assert isinstance(transport().send(outgoing(server)), Accepted)
        assert copies(server) == 1


@pytest.mark.parametrize("replies", [*itertools.permutations(["250", "550", "451"])])
def test_r34_each_recipient_has_its_own_answer_in_every_order(
    replies: tuple[str, ...],
) -> None:
    """R34, row 16: 250, 550 and 451 in one message; the 451 alone is tried again."""
    # Given three recipients, one taken, one refused, one put off
    plan = {"rcpt": [f"{code} 2.1.5 so be it" for code in replies]}
    by_code = dict(zip(replies, (A, B, C), strict=True))
    with SmtpServer(Script(connections=[plan])) as server:
        first = transport().send(outgoing(server, A, B, C))
        assert isinstance(first, Accepted)
        assert [r.address for r in first.refused] == [by_code["550"]]
        assert first.deferred == (by_code["451"],)

        # When only the one put off is tried again
        again = transport().send(outgoing(server, *first.deferred))

        # Then the mail has come once to each of the two, never to the third
        assert isinstance(again, Accepted)
        assert [copies(server, by_code[code]) for code in ("250", "451", "550")] == [
            *(1, 1, 0)
        ]


@pytest.mark.parametrize("tls", ["implicit", "starttls"])
@pytest.mark.parametrize("certificate", ["self_signed", "other_name", "expired"])
def test_r35_a_certificate_that_proves_nothing_is_refused_before_any_login(
    tls: str, certificate: str
) -> None:
    """R35: self-signed, of another name, or expired."""
    with SmtpServer(Script(tls=tls, certificate=certificate)) as server:
        result = transport().send(outgoing(server))

        assert isinstance(result, RetryLater)
        assert (result.retry_class, result.code) == (RetryClass.RELAY, "tls_failed")
        server.wait_until(lambda: server.open_now == 0)
        (seen,) = server.connections
        assert (seen.logins, bytes(seen.secure)) == ([], b"")
        assert b"open sesame" not in seen.clear


def test_r35_what_was_said_before_the_handshake_is_forgotten() -> None:
    """R35: octets before the TLS handshake count for nothing."""
    # Given somebody between us who speaks in the relay's name, in clear
    injected = "250-forged\r\n250 AUTH PLAIN\r\n235 2.7.0 welcome\r\n250 2.1.0 ok"
    with SmtpServer(Script(tls="starttls", injected=injected)) as server:
        result = transport().send(outgoing(server))

        # Then no answer is taken for another's, and EHLO is said again inside TLS
        assert isinstance(result, Accepted)
        (seen,) = server.connections
        hello = [secure for line, secure in seen.commands if line.startswith("ehlo")]
        assert hello == [False, True]
        assert seen.logins == [("user", "open sesame")]
        assert copies(server) == 1


def test_r36_a_private_authority_works_when_the_domain_or_the_file_names_it(
    tmp_path: Any,
) -> None:
    """R36: a relay with an authority of its own."""
    ca_file = tmp_path / "ca.pem"
    ca_file.write_text(authority().pem)
    with SmtpServer() as server:
        by_domain = transport().send(outgoing(server))
        nobody = outgoing(server, relay=relay(server, ca=None))
        by_file = transport(ca_file=str(ca_file)).send(nobody)
        by_system = transport().send(nobody)

        assert isinstance(by_domain, Accepted)
        assert isinstance(by_file, Accepted)
        assert isinstance(by_system, RetryLater)
        assert by_system.code == "tls_failed"


@pytest.mark.parametrize("ca", ["", "no certificate at all", make_authority().pem])
def test_r36_a_bundle_that_is_empty_broken_or_anothers_never_lets_anyone_in(
    ca: str,
) -> None:
    with SmtpServer() as server:
        result = transport().send(outgoing(server, relay=relay(server, ca=ca)))

        assert isinstance(result, RetryLater)
        assert result.code == "tls_failed"
        server.wait_until(
            lambda: [seen.ended is None for seen in server.connections] == [False]
        )
        assert [seen.logins for seen in server.connections] == [[]]


def test_r36_every_context_verifies_the_chain_and_the_name(tmp_path: Any) -> None:
    ca_file = tmp_path / "ca.pem"
    ca_file.write_text(authority().pem)
    for ca, file in [(authority().pem, None), (None, str(ca_file)), (None, None)]:
        context = verified_context(ca, file)

        assert context.verify_mode == ssl.CERT_REQUIRED
        assert context.check_hostname
        assert context.minimum_version >= ssl.TLSVersion.TLSv1_2


def test_r37_421_to_quit_after_the_250_is_no_reason_to_try_again() -> None:
    """R37: what QUIT is answered changes nothing."""
    with SmtpServer(Script(always={"quit": "421 4.4.2 bye"})) as server:
        assert isinstance(transport().send(outgoing(server)), Accepted)
        assert (copies(server), len(server.connections)) == (1, 1)


def test_r41_a_relay_that_answers_the_dot_too_late_leaves_it_uncertain() -> None:
    # Given a relay that answers long after the time it has
    with SmtpServer(Script(always={"dot": "late:2"})) as server:
        result = transport(final_seconds=0.6).send(outgoing(server))

        # Then there was one transaction, and what it came to is not known
        assert isinstance(result, Unknown)
        assert result.reason == UncertainReason.TIMEOUT
        assert (copies(server), len(server.connections)) == (1, 1)


@pytest.mark.parametrize(
    "body",
    [
        b"bare\nline\nfeeds\n",
        b"bare\rreturns\rhere",
        b".\n..\n.dot\n\n.\n",
        b"\r\n.\r\nmail from:<evil@x.test>\r\n.\n.\r",
        b"\n.\n",
        b"gr\xc3\xbc\xc3\x9fe \xff\x80\n",
        b"a" * 1200 + b"\n",
        b"",
        b"no end",
    ],
)
@pytest.mark.parametrize("tls", ["implicit", "starttls"])
def test_row_24_the_wire_has_no_bare_line_end_and_the_content_comes_back(
    tls: str, body: bytes
) -> None:
    """Row 24, read at the other end of a relay's wire."""
    mime = CONTENT + body
    with SmtpServer(Script(tls=tls)) as server:
        assert isinstance(transport().send(outgoing(server, mime=mime)), Accepted)

        (mail,) = server.mails
        wire = bytes(server.connections[0].secure)
        assert b"\r" not in wire.replace(b"\r\n", b"")
        assert b"\n" not in wire.replace(b"\r\n", b"")
        assert mail.content.splitlines() == mime.splitlines()
        assert copies(server) == 1


def test_row_24_eight_bit_content_is_announced_to_a_relay_that_can_take_it() -> None:
    mime = CONTENT + "grüße\r\n".encode()
    with SmtpServer(Script(extensions=["8BITMIME"])) as server:
        transport().send(outgoing(server, mime=mime))
        transport().send(outgoing(server))

        eight, seven = (mail.parameters for mail in server.mails)
        assert eight.endswith(" BODY=8BITMIME")
        assert "BODY" not in seven


def _timed(message: OutgoingMessage, **times: float) -> tuple[TransportResult, float]:
    started = time.monotonic()
    result = transport(**times).send(message)
    return result, time.monotonic() - started


@pytest.mark.parametrize(
    "stage", ["connect", "greeting", "ehlo", "starttls", "auth", "mail", "rcpt", "data"]
)
def test_row_39_a_relay_that_drips_cannot_outlive_a_step(stage: str) -> None:
    # Given a relay that says one octet every 20 ms, for eight seconds
    script = Script(tls="starttls", drip_seconds=0.02, always={stage: "drip"})
    with SmtpServer(script) as server:
        result, took = _timed(outgoing(server), seconds=0.5)

        # Then the step ends in its time, although the line was never silent
        assert isinstance(result, RetryLater)
        assert result.code in ("timeout", "connect_failed")
        assert took < 5


def test_row_39_each_step_has_its_own_time() -> None:
    # Given a relay that is slow at each step, and slower in all than one step may be
    slow = dict.fromkeys(["ehlo", "auth", "mail", "rcpt", "data"], "late:0.6")
    with SmtpServer(Script(always=slow)) as server:
        result, took = _timed(outgoing(server), seconds=2.0)

        assert isinstance(result, Accepted)
        assert took > 3.0


@pytest.mark.parametrize("stage", ["mail", "data"])
def test_row_39_a_call_ends_at_its_deadline_whatever_its_steps_may_take(
    stage: str,
) -> None:
    script = Script(drip_seconds=0.02, always={stage: "drip"})
    with SmtpServer(script) as server:
        message = outgoing(server, deadline_seconds=3.0)
        result, took = _timed(message, seconds=30)

        assert isinstance(result, RetryLater)
        assert result.code == "deadline"
        assert 2.9 < took < 10
        assert copies(server) == 0


def test_row_39_a_relay_that_stops_reading_ends_at_the_deadline() -> None:
    with SmtpServer(Script(always={"body": "hang"})) as server:
        mime = CONTENT + b"0123456789" * 800_000
        message = outgoing(server, mime=mime, deadline_seconds=2.0)
        result, took = _timed(message, seconds=30)

        assert isinstance(result, RetryLater)
        assert result.code == "deadline"
        assert took < 10
        assert copies(server) == 0


def test_row_39_the_deadline_after_the_dot_leaves_it_uncertain() -> None:
    # Given a relay that drips its answer to a dot that is written at the last moment
    started = time.monotonic()

    def announce(phase: Phase) -> None:
        if phase == Phase.AWAITING_REPLY:
            until(lambda: time.monotonic() - started > 4.7)

    with SmtpServer(Script(drip_seconds=0.02, always={"dot": "drip"})) as server:
        message = outgoing(server, deadline_seconds=5.0, announce=announce)
        result, took = _timed(message, seconds=30)

        # Then the call ends with its time, not with the time for the reply
        assert result == Unknown(
            UncertainReason.TIMEOUT, "the call's time ended after the dot"
        )
        assert 4.9 < took < 6
        assert copies(server) == 1
