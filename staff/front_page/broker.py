"""Whether the broker lets somebody in, asked briefly: a page waits for the answer."""

from typing import Any, Final
from urllib.parse import urlsplit

from django.conf import settings
from kombu import Connection

AWAY: Final = "does not answer"
SECONDS: Final = 0.5
"""How long a page waits for a broker that hangs."""


def broker_state() -> str:
    """Return ``ok``, or that it does not answer; mail waits then, and is not lost."""
    url = settings.CELERY_BROKER_URL
    scheme = urlsplit(url).scheme
    if scheme == "memory":
        return "in memory"
    session = Connection(url, connect_timeout=SECONDS, transport_options=_brief(scheme))
    try:
        session.ensure_connection(max_retries=1, interval_start=0)
        session.channel()  # Redis is spoken to no earlier
    except Exception:  # each library has its own
        return AWAY
    finally:
        session.release()
    return "ok"


def _brief(scheme: str) -> dict[str, Any]:
    once = {"max_retries": 1, "interval_start": 0, "interval_step": 0}
    if scheme in {"redis", "rediss"}:
        return once | {"socket_timeout": SECONDS, "socket_connect_timeout": SECONDS}
    return once | {"read_timeout": SECONDS, "write_timeout": SECONDS}
