"""SES under its claim: back-off, doubt, test tenants, and whose word counts."""

import os
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from moto.server import ThreadedMotoServer
from moto.ses.models import ses_backends

from core import http_once
from core.clock import database_now
from core.elapsed import elapsed_clock
from core.http_answer import Answer
from delivery.models import Attempt, OutboundState
from mailboxes.statuses import MessageStatus, TenantMode
from outbound import claims
from outbound.alarms import sweep_claims
from outbound.deliver import deliver
from outbound.registry import transport_for
from outbound.transports import ses_client
from outbound.transports.base import (
    Accepted,
    ClaimLost,
    OutgoingMessage,
    UncertainReason,
    Unknown,
)
from outbound.transports.ses import SesTransport
from outbound.transports.ses_client import SesAccount, client_of
from tests.services.conftest import events_of
from tests.support.certificates import authority, good_context
from tests.support.queued import queued_for
from tests.support.racers import Racers
from tests.support.ses_server import (
    KEY_ID,
    REGION,
    SECRET,
    SesServer,
    hang,
    refusing,
    ses_server,
)

pytestmark = pytest.mark.django_db
Later = Callable[[float], None]
ROOT = Path(__file__).resolve().parents[2]
MOTO_ACCOUNT = "123456789012"
CONTENT = b"Subject: Your booking\r\n\r\nHello.\r\n"


def _account(url: str) -> SesAccount:
    return SesAccount(REGION, KEY_ID, SECRET, url)


def _transport(url: str, *, seconds: float = 10.0) -> SesTransport:
    return SesTransport(account=_account(url), seconds=seconds)


def _outgoing(n: int = 1, **changes: Any) -> OutgoingMessage:
    given: dict[str, Any] = {
        "message_id": f"msg_{n:026}",
        "rfc_message_id": "01k@x.test",
        "domain": "x.test",
        "from_address": "from@x.test",
        "recipients": ("a@y.test",),
        "mime": CONTENT,
    }
    return OutgoingMessage(**{**given, **changes})


# --- from claim to record ------------------------------------------------------------


def test_three_429_and_a_200_are_one_mail_after_three_gentle_back_offs(
    ses: SesServer, later: Later
) -> None:
    """R13."""
    message = queued_for("ses")
    ses.acts.extend([refusing(429, "TooManyRequestsException")] * 3)

    waits = []
    for _ in range(4):
        for _ in range(2):  # a ring before the retry is due makes no call
            deliver(message.public_id)
        if (row := OutboundState.objects.filter(message=message).first()) is not None:
            assert row.retry_at is not None
            waits.append((row.retry_at - database_now()).total_seconds())
            later(waits[-1] + 0.01)

    assert [round(wait / 10) for wait in waits] == [1, 2, 3]
    for n, wait in enumerate(waits, start=1):
        assert 9 * n - 1 <= wait <= 11 * n
    message.refresh_from_db()
    assert message.status == MessageStatus.SUBMITTED
    assert len(ses.mails) == 1
    assert ses.requests == Attempt.objects.count() == 4


def test_throttled_for_a_day_a_message_fails_and_is_not_called_again(
    ses: SesServer, later: Later
) -> None:
    message = queued_for("ses")
    ses.acts.append(refusing(429, "TooManyRequestsException"))
    later(86_395)

    deliver(message.public_id)
    later(600)
    deliver(message.public_id)

    message.refresh_from_db()
    assert (message.status, message.reason) == ("failed", "quota_exhausted")
    assert ses.requests == 1


def test_an_answer_after_the_claim_has_ended_settles_the_doubt(
    ses: SesServer, later: Later
) -> None:
    # Given a call that SES answers after the alarm has ended its claim
    message = queued_for("ses")
    claim = claims.claim(message.public_id)
    assert claim is not None
    result = transport_for(claim).send(claim.outgoing)
    later(301)
    sweep_claims()
    message.refresh_from_db()
    assert message.status == MessageStatus.UNCERTAIN

    # When it is recorded
    claims.record(claim, result)

    # Then the message has been sent, once, under SES's id
    message.refresh_from_db()
    assert message.status == MessageStatus.SUBMITTED
    assert message.provider_message_id == ses.mails[0].id
    assert message.rfc_message_id is None
    assert "message.reconciled" in events_of(message)
    assert ses.requests == 1


def test_a_test_tenant_never_reaches_ses(ses: SesServer) -> None:
    message = queued_for("ses", "delivered@simulator.invalid")
    message.tenant.mode = TenantMode.TEST
    message.tenant.save()

    deliver(message.public_id)

    message.refresh_from_db()
    assert (message.status, message.provider) == (MessageStatus.SUBMITTED, "simulator")
    assert ses.requests == 0


def test_mail_that_waited_for_ses_leaves_once_it_is_configured(
    ses: SesServer, settings: Any, later: Later
) -> None:
    message = queued_for("ses")
    settings.PM_SES_REGION = ""
    deliver(message.public_id)
    assert Attempt.objects.count() == ses.requests == 0

    settings.PM_SES_REGION = REGION
    later(70)
    deliver(message.public_id)

    message.refresh_from_db()
    assert message.status == MessageStatus.SUBMITTED
    assert len(ses.mails) == 1


def test_a_client_that_cannot_be_made_is_no_doubt(
    ses: SesServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(account: SesAccount) -> None:
        raise RuntimeError("no model of SES on this machine")

    monkeypatch.setattr(ses_client, "_clients", {})
    monkeypatch.setattr(ses_client, "_client", fail)
    message = queued_for("ses")

    deliver(message.public_id)

    message.refresh_from_db()
    assert message.status == MessageStatus.QUEUED
    assert Attempt.objects.get().code == "no_call"
    assert ses.requests == 0


# --- the call ------------------------------------------------------------------------


def test_too_little_left_of_the_claim_makes_no_call(ses: SesServer) -> None:
    message = _outgoing(seconds_left=lambda: 9.0)

    with pytest.raises(ClaimLost):
        _transport(ses.url).send(message)

    assert ses.requests == 0


def test_a_port_that_nobody_listens_on_is_doubt_too(ses: SesServer) -> None:
    """The page classes every connection error as unknown."""
    with socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))
        port = deaf.getsockname()[1]
        result = _transport(f"http://127.0.0.1:{port}").send(_outgoing())

    assert isinstance(result, Unknown)
    assert result.reason == UncertainReason.CONNECTION_LOST


def test_a_name_that_nobody_looks_up_ends_with_the_deadline(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ends = threading.Event()
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: ends.wait(20) and [])
    started = elapsed_clock()

    result = _transport("http://ses.example.com", seconds=0.5).send(_outgoing())

    took = elapsed_clock() - started
    ends.set()
    assert isinstance(result, Unknown)
    assert result.reason == UncertainReason.TIMEOUT
    assert took < 5


def test_a_certificate_that_is_not_vouched_for_ends_the_call_unsent() -> None:
    with ses_server(good_context()) as server:
        result = _transport(server.url).send(_outgoing())

        assert isinstance(result, Unknown)
        assert "CERTIFICATE_VERIFY_FAILED" in result.detail
        assert server.requests == 0


def test_over_tls_a_mail_arrives_once(monkeypatch: pytest.MonkeyPatch) -> None:
    ours = ssl.create_default_context(cadata=authority().pem)
    monkeypatch.setattr(http_once, "_verified", lambda: ours)
    with ses_server(good_context()) as server:
        result = _transport(server.url).send(_outgoing())

        assert isinstance(result, Accepted)
        assert (len(server.mails), server.requests) == (1, 1)


def test_calls_at_once_share_one_client_and_each_keeps_its_own_end(
    ses: SesServer,
) -> None:
    """Five rounds of eight threads: one hangs until its deadline, seven send."""
    ses.acts.clear()
    racers = Racers(8)
    try:
        for round_ in range(5):
            ses.reset()
            ses.acts.append(hang)
            calls = [
                lambda n=n: _transport(ses.url, seconds=1.0).send(_outgoing(n))
                for n in range(round_ * 8, round_ * 8 + 8)
            ]
            results = racers.at_once(calls)

            assert sum(isinstance(result, Accepted) for result in results) == 7
            doubts = [result for result in results if isinstance(result, Unknown)]
            assert [doubt.reason for doubt in doubts] == [UncertainReason.TIMEOUT]
            tags = [mail.tags["pylota_message"] for mail in ses.mails]
            assert len(tags) == len(set(tags)) == ses.requests == 8
    finally:
        racers.close()
    assert client_of(_account(ses.url)) is client_of(_account(ses.url))


# --- what lies on the machine --------------------------------------------------------


def test_nothing_of_the_machine_changes_who_sends_or_where(
    ses: SesServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    # Given other keys, endpoints, proxies and retries wherever boto3 would look
    config, keys = tmp_path / "config", tmp_path / "credentials"
    config.write_text(
        "[default]\nregion = us-east-1\nmax_attempts = 9\nca_bundle = /nowhere\n"
        "endpoint_url = http://127.0.0.1:1\n[broken"
    )
    keys.write_text("[default]\naws_access_key_id = X\naws_secret_access_key = Y\n")
    nowhere = "http://127.0.0.1:1"
    for name, value in {
        "AWS_CONFIG_FILE": str(config),
        "AWS_SHARED_CREDENTIALS_FILE": str(keys),
        "AWS_PROFILE": "somebody-else",
        "AWS_DEFAULT_PROFILE": "somebody-else",
        "AWS_REGION": "us-east-1",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ACCESS_KEY_ID": "AKIAOTHER",
        "AWS_SECRET_ACCESS_KEY": "other",
        "AWS_SESSION_TOKEN": "other",
        "AWS_ENDPOINT_URL": nowhere,
        "AWS_ENDPOINT_URL_SESV2": nowhere,
        "AWS_USE_FIPS_ENDPOINT": "true",
        "AWS_USE_DUALSTACK_ENDPOINT": "true",
        "AWS_CA_BUNDLE": "/nowhere",
        "AWS_MAX_ATTEMPTS": "9",
        "AWS_RETRY_MODE": "legacy",
        "AWS_EC2_METADATA_SERVICE_ENDPOINT": nowhere,
        "HTTP_PROXY": nowhere,
        "http_proxy": nowhere,
        "ALL_PROXY": nowhere,
    }.items():
        monkeypatch.setenv(name, value)

    # When a client is made and used, for a good call and a bad one
    account = SesAccount(REGION, KEY_ID, SECRET, ses.url + "/")
    transport = SesTransport(account=account, seconds=10)
    assert isinstance(transport.send(_outgoing()), Accepted)
    ses.acts.append(refusing(503))
    assert isinstance(transport.send(_outgoing()), Unknown)

    # Then both were signed by our key, for our region, and made once
    assert ses.requests == 2
    assert all(f"={KEY_ID}/" in found for found in ses.authorizations)
    assert all(f"/{REGION}/ses/" in found for found in ses.authorizations)


def test_without_an_endpoint_of_its_own_the_region_s_is_called(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[tuple[str, str]] = []

    def ask(method: str, url: str, **_: Any) -> Answer:
        asked.append((method, url))
        return Answer(200, b'{"MessageId": "1"}')

    monkeypatch.setattr("outbound.transports.ses_client.ask", ask)
    account = SesAccount("eu-central-1", KEY_ID, SECRET)

    assert isinstance(SesTransport(account=account).send(_outgoing()), Accepted)
    host = "https://email.eu-central-1.amazonaws.com"
    assert asked == [("POST", f"{host}/v2/email/outbound-emails")]


def test_a_process_without_ses_does_not_load_boto3() -> None:
    """It costs half a second and forty megabytes, in each process."""
    script = (
        "import sys, pylota.wsgi, pylota.celery, outbound.tasks, outbound.registry;"
        "sys.exit('boto3' in sys.modules or 'botocore' in sys.modules)"
    )
    given = {**os.environ, "DJANGO_SETTINGS_MODULE": "pylota.settings"}

    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, env=given)

    assert done.returncode == 0


# --- a second opinion ----------------------------------------------------------------


def test_moto_s_ses_takes_the_mail_too(settings: Any) -> None:
    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        settings.PM_SES_REGION = REGION
        settings.PM_SES_ACCESS_KEY_ID = KEY_ID
        settings.PM_SES_SECRET_ACCESS_KEY = SECRET
        settings.PM_SES_ENDPOINT_URL = f"http://{host}:{port}"
        message = queued_for("ses")
        domain = (message.from_address or "").partition("@")[2]
        backend = ses_backends[MOTO_ACCOUNT][REGION]
        backend.verify_domain(domain)

        deliver(message.public_id)

        message.refresh_from_db()
        (found,) = backend.sent_messages
        assert found.id == message.provider_message_id
        assert found.source == message.from_address
        assert found.destinations == ["jo@example.net"]
        assert "See you soon." in found.raw_data
    finally:
        server.stop()
