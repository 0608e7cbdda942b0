"""The faulty SMTP server does what its script says, and counts what it took."""

import os
import smtplib
import socket
import ssl
from contextlib import closing

import pytest

from tests.support.peers import process_of_peer
from tests.support.smtp_control import RemoteServer
from tests.support.smtp_script import Script
from tests.support.smtp_server import SmtpServer

CONTENT = b"Message-ID: <a@x.test>\r\nSubject: hi\r\n\r\n.dot\r\nend\r\n"


def _send(port: int, ca: str, recipients: list[str], content: bytes = CONTENT) -> None:
    context = ssl.create_default_context(cadata=ca)
    with smtplib.SMTP_SSL("127.0.0.1", port, context=context, timeout=5) as client:
        client.login("u", "p")
        client.sendmail("from@x.test", recipients, content)


def test_a_copy_is_counted_for_each_recipient_once_the_dot_was_read() -> None:
    with SmtpServer() as server:
        _send(server.port, server.ca, ["a@y.test", "b@y.test"])

        assert server.copies == {
            ("<a@x.test>", "a@y.test"): 1,
            ("<a@x.test>", "b@y.test"): 1,
        }
        (mail,) = server.mails
        assert mail.content == CONTENT
        assert mail.raw != CONTENT
        assert server.connections[0].logins == [("u", "p")]


def test_no_copy_is_counted_for_a_mail_that_is_refused_at_the_dot() -> None:
    script = Script(always={"dot": "451 4.7.0 later"})
    with SmtpServer(script) as server:
        with pytest.raises(smtplib.SMTPDataError):
            _send(server.port, server.ca, ["a@y.test"])

        assert len(server.mails) == 1
        assert not server.copies


def test_a_copy_stands_although_the_answer_never_left() -> None:
    with SmtpServer(Script(always={"dot": "reset"})) as server:
        with pytest.raises(smtplib.SMTPServerDisconnected):
            _send(server.port, server.ca, ["a@y.test"])

        assert server.copies[("<a@x.test>", "a@y.test")] == 1


def test_plans_are_used_in_the_order_of_arrival_then_the_one_for_all() -> None:
    script = Script.parse(
        {"connections": [{"connect": "drop"}], "always": {"rcpt": {"*": "550 no"}}}
    )
    with SmtpServer(script) as server:
        with pytest.raises(OSError, match=r"EOF|reset|closed"):
            _send(server.port, server.ca, ["a@y.test"])
        with pytest.raises(smtplib.SMTPRecipientsRefused):
            _send(server.port, server.ca, ["a@y.test"])


def test_the_process_at_the_other_end_is_found() -> None:
    with (
        closing(socket.create_server(("127.0.0.1", 0))) as listener,
        closing(socket.create_connection(listener.getsockname())) as client,
        closing(listener.accept()[0]),
    ):
        assert process_of_peer(client.getsockname()[1]) == os.getpid()


def test_it_runs_as_a_process_of_its_own_and_can_be_asked() -> None:
    with RemoteServer({"always": {"rcpt": {"bad@y.test": "550 5.1.1 no"}}}) as server:
        _send(server.port, server.ca, ["a@y.test", "bad@y.test"])

        assert server.copies() == {("<a@x.test>", "a@y.test"): 1}
        server.wait_until(lambda s: s.ask("state")["open"] == 0)
        server.follow({"always": {"dot": "554 5.6.0 no"}})
        with pytest.raises(smtplib.SMTPDataError):
            _send(server.port, server.ca, ["a@y.test"])
        # the client has its answer before the server sees the end of the connection
        server.wait_until(lambda s: s.ask("state")["open"] == 0)
        assert [seen["ended"] for seen in server.ask("connections")] == [True, True]
    assert server.process.returncode == 0
