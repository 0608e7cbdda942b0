"""How the web server is run: granian, one interface, no upgrade to anything else."""

import http.client
import sys
from argparse import ArgumentTypeError
from typing import Final

from django.conf import settings

KILL_SECONDS: Final = 7
"""Granian's own grace for requests in flight; less than the supervisor's."""


def command(host: str, port: int) -> list[str]:
    """Return the command of the web server (granian speaks HTTP/1.1 only here).

    Without ``--http 1`` it also accepts HTTP/2 in clear text, which no proxy of ours
    speaks and no test covers.
    """
    return [
        *(sys.executable, "-m", "granian", "--interface", "wsgi"),
        *("--http", "1", "--no-ws"),
        *("--workers", str(settings.PM_WEB_WORKERS)),
        *("--blocking-threads", str(settings.PM_WEB_THREADS)),
        *("--workers-kill-timeout", str(KILL_SECONDS), "--respawn-failed-workers"),
        *("--host", host, "--port", str(port)),
        "pylota.wsgi:application",
    ]


def port_number(raw: str) -> int:
    """Return the port that a command line names, 0 for any free one.

    Raises ArgumentTypeError, whose text argparse shows.
    """
    if not (raw.isdecimal() and int(raw) <= 65535):
        raise ArgumentTypeError("must be a number from 0 to 65535")
    return int(raw)


def answers(host: str, port: int) -> bool:
    """Tell whether the web answers ``GET /health``."""
    asked = http.client.HTTPConnection(host, port, timeout=2)
    try:
        asked.request("GET", "/health", headers={"Host": settings.PM_API_HOST})
        return asked.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        asked.close()
