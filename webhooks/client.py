"""One POST to a receiver, behind the guard; knows no rows.

The name is looked up for this attempt alone, and what was checked is what is connected
to (security, section 4).
"""

import socket
import ssl
from collections.abc import Mapping
from functools import partial
from typing import Final

import httpx
from django.conf import settings

from core.deadline import Deadline
from core.elapsed import elapsed_clock
from core.http_once import NoAnswer, ask
from core.network import HostRefused, LookupFailed, connect
from webhooks.destination import (
    DestinationRefused,
    HostForbidden,
    own_hosts,
    parse_destination,
)
from webhooks.outcomes import Outcome, error_of
from webhooks.statuses import AttemptError

SECONDS: Final = 15.0
"""What an attempt may take, from the look-up to the last octet that is read."""

MOST_READ: Final = 4096
"""Octets of an answer's body that are read; none is kept."""


def post(url: str, body: bytes, *, headers: Mapping[str, str]) -> Outcome:
    """Make one attempt and say how it ended, within 15 s."""
    began = elapsed_clock()
    error, status, detail = _post(url, body, headers, Deadline(SECONDS))
    took = round((elapsed_clock() - began) * 1000)
    return Outcome(error, status, detail, took)


def _post(
    url: str, body: bytes, headers: Mapping[str, str], deadline: Deadline
) -> tuple[AttemptError | None, int | None, str]:
    try:
        parse_destination(url)
        answer = ask(
            "POST",
            url,
            headers=headers,
            content=body,
            deadline=deadline,
            longest=MOST_READ,
            is_cut=True,
            connect=partial(connect, allow_private=settings.LOCAL, refused=own_hosts()),
        )
    except (HostRefused, HostForbidden) as refused:
        return AttemptError.SSRF_BLOCKED, None, str(refused)
    except DestinationRefused as refused:
        return AttemptError.INVALID_URL, None, str(refused)
    except (httpx.InvalidURL, UnicodeError):
        return AttemptError.INVALID_URL, None, "is not a URL"
    except NoAnswer as failure:
        return _error_of(failure, deadline), None, type(failure.__cause__).__name__
    return error_of(answer.status), answer.status, ""


def _error_of(failure: NoAnswer, deadline: Deadline) -> AttemptError:
    """Return what kept an answer from coming: what was raised first says it."""
    first: BaseException = failure
    while first.__cause__ is not None:
        first = first.__cause__
    if isinstance(first, TimeoutError) or deadline.has_passed:
        return AttemptError.TIMEOUT
    if isinstance(first, ssl.SSLError):
        return AttemptError.TLS
    return AttemptError.DNS if _is_of_dns(first) else AttemptError.CONNECT


def _is_of_dns(error: BaseException) -> bool:
    """Say whether a look-up failed; its own cause is the C library's or the codec's."""
    return isinstance(error, LookupFailed | socket.gaierror | UnicodeError)
