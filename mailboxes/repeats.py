"""POSTs that send no mail, once for one ``Idempotency-Key`` (REST contract 1.5).

The answer is stored by the transaction that does the work, so a key is never remembered
without its effect, nor an effect kept without its key. The advisory lock ends with the
transaction: there is no "in progress" that could outlive its request.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

import psycopg
from django.conf import settings
from django.db import connection
from psycopg.types.json import Jsonb

from core import clock
from core.database import Row, execute, fetch_one, session_parameters
from core.errors import IdempotencyConflict, RequestInProgress
from core.sweeps import until_none

SECRET: Final = "secret"  # noqa: S105  the name of a field, not one
PLATFORM: Final = "platform"
BATCH: Final = 1000


@dataclass(frozen=True, slots=True)
class Place:
    """Where an answer is remembered: whose, of which key, under which header."""

    scope: str
    key_id: str
    key_hash: str
    fingerprint: str

    def lock_number(self) -> int:
        """Return the first 64 bits of a hash over the place, signed."""
        text = f"repeat\0{self.scope}\0{self.key_id}\0{self.key_hash}"
        return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], signed=True)


@dataclass(frozen=True, slots=True)
class Remembered:
    """An earlier answer, without the secret that it may have shown."""

    status: int
    body: dict[str, Any]


def hold_place(place: Place) -> None:
    """Take the place until the transaction ends; raises RequestInProgress.

    Whoever got it looks in a statement of its own: ``find_answer``.
    """
    row = fetch_one(
        "SELECT pg_try_advisory_xact_lock(%(number)s)", {"number": place.lock_number()}
    )
    _check_granted(row)


@contextmanager
def place_held(place: Place) -> Iterator[None]:
    """Hold the place over several transactions; raises RequestInProgress.

    The same lock as ``hold_place`` takes, in the transaction of a session that does
    nothing else: it ends with this block, or with this process.
    """
    with connection.wrap_database_errors:
        session = psycopg.connect(**session_parameters())
    try:
        with connection.wrap_database_errors:
            session.execute("SET LOCAL idle_in_transaction_session_timeout = 0")
            asked = session.execute(
                "SELECT pg_try_advisory_xact_lock(%(number)s)",
                {"number": place.lock_number()},
            )
            row = asked.fetchone()
        _check_granted(row)
        yield
    finally:
        session.close()


def _check_granted(row: Row | None) -> None:
    if row is None or not row[0]:
        raise RequestInProgress("A request with this Idempotency-Key is in progress.")


def find_answer(place: Place) -> Remembered | None:
    """Return the earlier answer to this request; None if there is none.

    Raises IdempotencyConflict when the key stands for another request.
    """
    row = fetch_one(
        "SELECT fingerprint, response_status, response_body FROM idempotency_records"
        " WHERE scope = %(scope)s AND key_id = %(key)s AND key_hash = %(hash)s"
        " AND (expires_at IS NULL OR expires_at > clock_timestamp() + %(offset)s)",
        _parameters(place),
    )
    if row is None:
        return None
    if row[0] != place.fingerprint:
        raise IdempotencyConflict("This Idempotency-Key was used for another request.")
    return Remembered(row[1], json.loads(row[2]))


def remember(place: Place, *, status: int, body: Mapping[str, Any]) -> None:
    """Store a success, without its secret; joins the transaction that made it true."""
    shown = {name: value for name, value in body.items() if name != SECRET}
    if SECRET in body:
        shown["secret_replayed"] = False
    days = settings.PM_IDEMPOTENCY_DAYS
    execute(
        "INSERT INTO idempotency_records AS r (scope, key_id, key_hash, fingerprint,"
        " response_status, response_body, created_at, expires_at)"
        " VALUES (%(scope)s, %(key)s, %(hash)s, %(fingerprint)s, %(status)s, %(body)s,"
        " clock_timestamp() + %(offset)s, clock_timestamp() + %(offset)s + %(life)s)"
        " ON CONFLICT (scope, key_id, key_hash) DO UPDATE SET"
        " fingerprint = EXCLUDED.fingerprint,"
        " response_status = EXCLUDED.response_status,"
        " response_body = EXCLUDED.response_body, created_at = EXCLUDED.created_at,"
        " expires_at = EXCLUDED.expires_at",  # only one that has ended gets here
        {
            **_parameters(place),
            "fingerprint": place.fingerprint,
            "status": status,
            "body": Jsonb(shown),
            "life": timedelta(days=days) if days else None,
        },
    )


def purge_answers() -> int:
    """Delete remembered answers whose time has ended; return how many."""
    return until_none(
        "DELETE FROM idempotency_records WHERE (scope, key_id, key_hash) IN ("
        " SELECT scope, key_id, key_hash FROM idempotency_records"
        " WHERE expires_at <= clock_timestamp() + %(offset)s"
        " ORDER BY expires_at LIMIT %(batch)s FOR UPDATE SKIP LOCKED)",
        {"offset": clock.offset, "batch": BATCH},
    )


def _parameters(place: Place) -> dict[str, Any]:
    return {
        "scope": place.scope,
        "key": place.key_id,
        "hash": place.key_hash,
        "offset": clock.offset,
    }
