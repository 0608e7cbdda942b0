"""What must be true of this deployment before it takes a send."""

import sys

import structlog
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.db import OperationalError, connection
from django.db.migrations.executor import MigrationExecutor

from core.database import fetch_all

log = structlog.get_logger()

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


def due_migrations() -> list[str]:
    """Return the migrations that are to be applied, in order: ``app.name``."""
    executor = MigrationExecutor(connection)
    plan = executor.migration_plan(executor.loader.graph.leaf_nodes())
    return [f"{migration.app_label}.{migration.name}" for migration, _ in plan]


def verify_session() -> None:
    """Refuse a database session on which a promise would break.

    Raises ImproperlyConfigured, naming each setting. A database that is away is no
    reason: it may come back, and until then nothing is accepted or claimed.
    """
    try:
        wrong = wrong_session_settings()
    except OperationalError:
        log.warning("session_not_verified", detail="database_away")
        return
    if wrong:
        details = "; ".join(f"{name} {what}" for name, what in wrong.items())
        raise ImproperlyConfigured(
            f"config_invalid: the database session is wrong: {details}. "
            "Remove the override from DATABASE_URL or the role."
        )


def refuse_wrong_session() -> None:
    """End this process with one line if ``verify_session`` refuses; then stay away.

    For the processes that a supervisor starts.
    """
    try:
        verify_session()
    except ImproperlyConfigured as error:
        sys.exit(str(error))
    finally:
        connection.close()
