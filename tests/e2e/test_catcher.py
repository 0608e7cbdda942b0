"""The catcher is a real SMTP server over TLS, and keeps what it answers 250 to."""

import os
import signal
import smtplib
import ssl
import subprocess
import sys
from collections.abc import Iterator
from email.message import EmailMessage
from pathlib import Path

import pytest

from domains.relay import RelaySettings
from pylota.catcher.certificates import ensure_certificates
from pylota.catcher.store import caught

ROOT = Path(__file__).resolve().parents[2]


class Catcher:
    """The catcher as its own process, as ``up`` starts it."""

    def __init__(self, data_dir: Path) -> None:
        self.data_dir = data_dir
        self.process = subprocess.Popen(
            [sys.executable, "manage.py", "catcher"],
            cwd=ROOT,
            env={**os.environ, "PM_ENV": "local", "PM_DATA_DIR": str(data_dir)},
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        self.said = self.process.stdout.readline()

    def relay(self) -> RelaySettings:
        endpoint = self.data_dir / "catcher" / "endpoint.json"
        return RelaySettings.from_json(endpoint.read_bytes())

    def stop(self) -> int:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        assert self.process.stdout is not None
        self.process.stdout.close()
        return self.process.wait(10)


@pytest.fixture
def catcher(tmp_path: Path) -> Iterator[Catcher]:
    running = Catcher(tmp_path)
    yield running
    running.stop()


def mail(subject: str = "Your booking 2291") -> EmailMessage:
    message = EmailMessage()
    message["From"] = "b@agents.test"
    message["To"] = "jo@example.net"
    message["Subject"] = subject
    message["Message-ID"] = "<01m8@agents.test>"
    message.set_content("See you soon.\n.\nA line of one dot stood above.")
    return message


def session(relay: RelaySettings) -> smtplib.SMTP_SSL:
    context = ssl.create_default_context(cadata=relay.ca)
    return smtplib.SMTP_SSL(relay.host, relay.port, context=context, timeout=10)


def test_a_mail_arrives_over_verified_tls_and_is_counted(catcher: Catcher) -> None:
    relay = catcher.relay()
    assert catcher.said == (
        f"catcher (SMTP over TLS) ready  smtps://127.0.0.1:{relay.port}\n"
    )

    with session(relay) as smtp:
        smtp.login(relay.username, relay.password)
        smtp.send_message(mail())
        smtp.send_message(mail())

    kept = caught(catcher.data_dir)
    assert kept.counts() == {"01m8@agents.test": 2}
    newest = kept.newest()[0]
    assert newest.subject == "Your booking 2291"
    assert (newest.sender, newest.recipients) == ("b@agents.test", ("jo@example.net",))
    raw = kept.source(newest.id)
    assert raw is not None
    assert b"\r\n.\r\nA line of one dot stood above." in raw


def test_both_kinds_of_login_are_taken(catcher: Catcher) -> None:
    relay = catcher.relay()
    for mechanism in ("auth_plain", "auth_login"):
        with session(relay) as smtp:
            smtp.ehlo()
            smtp.user, smtp.password = "anyone", "anything"
            name = mechanism.removeprefix("auth_").upper()
            code, _ = smtp.auth(name, getattr(smtp, mechanism))
        assert code == 235


def test_without_a_login_nothing_is_taken(catcher: Catcher) -> None:
    with session(catcher.relay()) as smtp, pytest.raises(smtplib.SMTPException):
        smtp.send_message(mail())

    assert caught(catcher.data_dir).total() == 0


def test_a_client_that_trusts_other_authorities_does_not_get_in(
    catcher: Catcher,
) -> None:
    relay = catcher.relay()

    with pytest.raises(ssl.SSLCertVerificationError):
        smtplib.SMTP_SSL(
            relay.host,
            relay.port,
            context=ssl.create_default_context(),
            timeout=10,
        )


def test_it_stops_on_sigterm_and_comes_back_on_its_port_with_its_mails(
    catcher: Catcher, tmp_path: Path
) -> None:
    relay = catcher.relay()
    with session(relay) as smtp:
        smtp.login(relay.username, relay.password)
        smtp.send_message(mail())
    assert catcher.stop() == 0

    again = Catcher(tmp_path)
    try:
        assert again.relay() == relay
        assert caught(tmp_path).total() == 1
        with session(relay) as smtp:
            smtp.login(relay.username, relay.password)
    finally:
        again.stop()


def test_it_runs_in_the_local_environment_only(tmp_path: Path) -> None:
    names = ("PM_KEY_PEPPER", "PM_HASH_KEY", "PM_MASTER_KEY", "PM_DJANGO_SECRET")
    secrets = {name: "ABCD"[n] * 43 + "=" for n, name in enumerate(names)}
    environment = {
        **os.environ,
        **secrets,
        "PM_ENV": "staging",
        "PM_API_HOST": "api.example.com",
        "PM_PLATFORM_DOMAIN": "agents.example.com",
        "PM_DATA_DIR": str(tmp_path),
    }

    done = subprocess.run(
        [sys.executable, "manage.py", "catcher"],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert done.returncode == 1
    assert "PM_ENV=local only" in done.stderr


def test_certificates_are_made_once_and_the_key_is_private(tmp_path: Path) -> None:
    first = ensure_certificates(tmp_path)
    before = first.certificate.read_bytes()

    second = ensure_certificates(tmp_path)

    assert second.certificate.read_bytes() == before
    assert first.key.stat().st_mode & 0o077 == 0
