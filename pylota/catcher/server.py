"""A real SMTP server, TLS from the first octet: it takes every login and every mail."""

import asyncio
import contextlib
import os
import signal
import socket
import warnings
from asyncio import to_thread
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from aiosmtpd.smtp import SMTP, AuthResult, Envelope, Session

from domains.relay import RelaySettings
from pylota.catcher.certificates import ensure_certificates
from pylota.catcher.store import CaughtMail, caught, folder_of

HOST: Final = "127.0.0.1"
SIZE_LIMIT: Final = 10 * 2**20
GRACE_SECONDS: Final = 6.0
"""How long a conversation may still take when the end is asked for."""
USERNAME, PASSWORD = "catcher", "any-password-will-do"


class _Handler:
    def __init__(self, mail: CaughtMail) -> None:
        self._mail = mail

    async def handle_DATA(  # noqa: N802  the name that aiosmtpd calls
        self, server: SMTP, session: Session, envelope: Envelope
    ) -> str:
        """Answer 250 once the mail is on disk."""
        content = envelope.content
        raw = content if isinstance(content, bytes) else str(content).encode()
        sender = envelope.mail_from or ""
        await to_thread(self._mail.keep, sender, list(envelope.rcpt_tos), raw)
        return "250 2.0.0 caught"


class _Sessions:
    """The conversations that are open, so that the end can wait for theirs."""

    def __init__(self) -> None:
        self._open = 0
        self._none = asyncio.Event()
        self._none.set()

    def change(self, by: int) -> None:
        self._open += by
        if self._open:
            self._none.clear()
        else:
            self._none.set()

    async def ended(self, *, seconds: float) -> None:
        """Return when none is open, or after this long."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._none.wait(), seconds)


class _Conversation(SMTP):
    sessions: _Sessions

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.sessions.change(1)
        super().connection_made(transport)

    def connection_lost(self, error: Exception | None) -> None:
        super().connection_lost(error)
        self.sessions.change(-1)


def _take_any_login(*_: object) -> AuthResult:
    return AuthResult(success=True)


def _protocol(mail: CaughtMail, sessions: _Sessions) -> Callable[[], Any]:
    def make() -> SMTP:
        with warnings.catch_warnings():
            # TLS is below: aiosmtpd only knows of the kind that STARTTLS starts
            warnings.filterwarnings("ignore", message="Requiring AUTH")
            conversation = _Conversation(
                _Handler(mail),
                hostname="catcher.localhost",
                ident="Pylota mail catcher",
                data_size_limit=SIZE_LIMIT,
                enable_SMTPUTF8=True,
                auth_required=True,
                auth_require_tls=False,
                authenticator=_take_any_login,
                loop=asyncio.get_running_loop(),
            )
        conversation.sessions = sessions
        return conversation

    return make


def _listening_socket(remembered: int) -> socket.socket:
    """Return a socket on the port of the last run if it is free, else on any."""
    for port in (remembered, 0):
        server = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            server.bind((HOST, port))
        except OSError:
            server.close()
            if port == 0:
                raise
        else:
            return server
    raise AssertionError("unreachable: port 0 is bound or raises")


def _remembered_port(endpoint: Path) -> int:
    try:
        return RelaySettings.from_json(endpoint.read_bytes()).port
    except (FileNotFoundError, ValueError, TypeError):
        return 0


def _announce(endpoint: Path, relay: RelaySettings) -> None:
    partial = endpoint.with_suffix(f".{os.getpid()}.new")
    handle = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(handle, "wb") as file:
        file.write(relay.to_json())
    partial.rename(endpoint)


async def serve(data_dir: Path, *, ready: Callable[[str], None]) -> None:
    """Catch mail until SIGTERM or SIGINT; call ``ready`` with the URL once it listens.

    Where it listens, and whom to trust, stands in ``catcher/endpoint.json``.
    """
    folder = folder_of(data_dir)
    certificates = ensure_certificates(folder / "tls")
    endpoint = folder / "endpoint.json"
    listening = _listening_socket(_remembered_port(endpoint))
    sessions = _Sessions()
    server = await asyncio.get_running_loop().create_server(
        _protocol(caught(data_dir), sessions),
        sock=listening,
        ssl=certificates.server_context(),
    )
    port = listening.getsockname()[1]
    relay = RelaySettings(
        host=HOST,
        port=port,
        username=USERNAME,
        password=PASSWORD,
        implicit_tls=True,
        ca=certificates.authority.read_text(),
    )
    _announce(endpoint, relay)
    ready(f"smtps://{HOST}:{port}")
    stopped = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        with contextlib.suppress(RuntimeError, ValueError):  # not the main thread
            asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    await stopped.wait()
    server.close()
    await sessions.ended(seconds=GRACE_SECONDS)
