"""boto3's SES client, given our settings and our way to the network, and nothing else.

boto3 makes the request, signs it and reads the answer. What lies on the machine (files
of ~/.aws, its environment variables, the instance's metadata) is not asked: a
deployment must not send by an account that its settings do not name.
"""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Final

import boto3
from botocore.awsrequest import AWSPreparedRequest, AWSResponse
from botocore.config import Config
from botocore.session import Session

from core.deadline import Deadline
from core.http_once import ask

MISSING_FILE: Final = os.devnull
FILES: Final = frozenset({"config_file", "credentials_file"})


@dataclass(frozen=True, slots=True)
class SesAccount:
    """Whose SES is called, and where; ``endpoint_url`` None means the region's own."""

    region: str
    access_key_id: str
    secret_access_key: str = field(repr=False)
    endpoint_url: str | None = None


_clients: dict[SesAccount, Any] = {}
_making = threading.Lock()
_deadline: ContextVar[Deadline] = ContextVar("deadline")


def client_of(account: SesAccount) -> Any:
    """Return this process's client for an account; it may be used by many threads.

    The first call takes a good part of a second: boto3 reads its models.
    """
    with _making:
        if account not in _clients:
            _clients[account] = _client(account)
        return _clients[account]


@contextmanager
def ending_at(deadline: Deadline) -> Iterator[None]:
    """Let the calls that this thread makes in the block end at the deadline."""
    token = _deadline.set(deadline)
    try:
        yield
    finally:
        _deadline.reset(token)


def _client(account: SesAccount) -> Any:
    client = boto3.Session(botocore_session=_bare_session()).client(
        "sesv2",
        region_name=account.region,
        aws_access_key_id=account.access_key_id,
        aws_secret_access_key=account.secret_access_key,
        endpoint_url=account.endpoint_url,
        config=Config(
            # 1 is the first call itself; "max_attempts" would count the repetitions
            retries={"total_max_attempts": 1, "mode": "standard"},
            ignore_configured_endpoint_urls=True,
            use_fips_endpoint=False,
            use_dualstack_endpoint=False,
            account_id_endpoint_mode="disabled",
            defaults_mode="legacy",
        ),
    )
    client.meta.events.register_first("before-send.sesv2", _send)
    return client


def _bare_session() -> Session:
    """Return a session whose every variable has its default, wherever it is set."""
    variables = {
        name: (None, None, MISSING_FILE if name in FILES else default, conversion)
        for name, (_, _, default, conversion) in Session.SESSION_VARIABLES.items()
    }
    return Session(session_vars=variables)


def _send(request: AWSPreparedRequest, **_: object) -> AWSResponse:
    """Answer botocore's request, so that it never opens a connection of its own."""
    answer = ask(
        request.method,
        request.url,
        headers={name: _text(value) for name, value in request.headers.items()},
        content=request.body or b"",
        deadline=_deadline.get(),
    )
    return AWSResponse(
        request.url, answer.status, dict(answer.headers), _Body(answer.body)
    )


@dataclass(frozen=True, slots=True)
class _Body:
    """A body in memory, as botocore reads one."""

    octets: bytes

    def stream(self) -> Iterator[bytes]:
        """Return the whole body."""
        yield self.octets


def _text(value: str | bytes) -> str:
    return value.decode("latin-1") if isinstance(value, bytes) else value


def _after_fork() -> None:
    global _making
    _making = threading.Lock()  # another thread may have held it


os.register_at_fork(after_in_child=_after_fork)
