"""What must be true of this deployment before it takes a send."""

import logging

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.db import OperationalError

from core.database import fetch_all

logger = logging.getLogger(__name__)

_NAMES = (
    "transaction_isolation",
    "synchronous_commit",
    "lock_timeout",
    "idle_in_transaction_session_timeout",
    "statement_timeout",
)


def wrong_session_settings() -> dict[str, str]:
    """Return what this database session has otherwise than the promises need, by name.

    Each value says what was found and what is needed. Raises OperationalError when the
    database does not answer (architecture section 3, Connections).
    """
    rows = fetch_all(
        "SELECT name, setting FROM pg_settings WHERE name = ANY (%(names)s)",
        {"names": list(_NAMES)},
    )
    found = {row[0]: row[1] for row in rows}
    needed = {name: settings.SESSION_OPTIONS.get(name, "") for name in _NAMES}
    needed["transaction_isolation"] = "read committed"
    return {
        name: f"is {found.get(name, 'unknown')}, must be {value}"
        for name, value in needed.items()
        if found.get(name) != value
    }


def verify_session() -> None:
    """Refuse a database session on which a promise would break.

    Raises ImproperlyConfigured, naming each setting. A database that is away is no
    reason: it may come back, and until then nothing is accepted or claimed.
    """
    try:
        wrong = wrong_session_settings()
    except OperationalError:
        logger.warning("database_away: its session settings were not verified")
        return
    if wrong:
        details = "; ".join(f"{name} {what}" for name, what in wrong.items())
        raise ImproperlyConfigured(
            f"config_invalid: the database session is wrong: {details}. "
            "Remove the override from DATABASE_URL or the role."
        )
