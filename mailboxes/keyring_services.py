"""Signing keys: made on first use, cached, turned (security, section 3, "Keyring").

Keys are read from the database and kept for five minutes in each process. There is no
way to read one from outside.
"""

import secrets
import threading
from dataclasses import dataclass
from datetime import datetime
from typing import Final

import psycopg
from django.db import connection, transaction

from core.clock import database_now
from core.database import execute, fetch_all
from core.elapsed import elapsed_clock
from core.sealing import Place, sealer
from mailboxes.keyring import VERIFY_FOR, Ring, RingKey, next_kid
from mailboxes.statuses import KeyPurpose

CACHE_SECONDS: Final = 300.0
REREAD_SECONDS: Final = 60.0
"""An unknown name makes a process read again, at most this often."""
SECRET_BYTES: Final = 32

_INSERT: Final = (
    "INSERT INTO signing_keys (purpose, kid, ciphertext)"
    " VALUES (%(purpose)s, %(kid)s, %(ciphertext)s)"
)
_NOT_FOR_PSYCOPG: Final = frozenset(
    {"cursor_factory", "context", "prepare_threshold", "pool"}
)


@dataclass(slots=True)
class _Cached:
    ring: Ring
    read_at: float
    reread_at: float = -REREAD_SECONDS


_cache: dict[KeyPurpose, _Cached] = {}
_guard = threading.Lock()


def current_key(purpose: KeyPurpose) -> RingKey:
    """Return the key that signs for a purpose; the first call of all makes it."""
    key = _ring(purpose).current
    if key is None:
        _make_first(purpose)
        key = _read(purpose).current
    if key is None:
        raise RuntimeError(f"no {purpose} key after one was made")
    return key


def verifying_key(purpose: KeyPurpose, kid: str, *, now: datetime) -> bytes | None:
    """Return the secret of a named key whose time has not ended; None for all others.

    A name this process has not heard of makes it look again, at most once a minute.
    """
    ring = _ring(purpose)
    if not ring.knows(kid) and _may_reread(purpose):
        ring = _read(purpose)
    return ring.verifying(kid, now=now)


@transaction.atomic
def rotate_key(purpose: KeyPurpose, *, revoke_previous: bool = False) -> str:
    """Let a new key sign, and return its name; the old one goes on verifying a while.

    90 days (``thread``), 7 days (``link``) or 24 hours (``cursor``); revoking deletes
    it at once. Other processes sign with the old key until their cache ends. Joins the
    caller's transaction, if there is one. Raises KeyringFull.
    """
    # readers go on; two rotations, or a rotation and a first use, do not
    execute("LOCK TABLE signing_keys IN SHARE ROW EXCLUSIVE MODE")
    now = database_now()
    parameters = {
        "purpose": str(purpose),
        "now": now,
        "until": now + VERIFY_FOR[purpose],
    }
    execute(
        "DELETE FROM signing_keys"
        " WHERE purpose = %(purpose)s AND verify_until <= %(now)s",
        parameters,
    )
    ring = _load(purpose)
    if ring.current is not None:
        execute(
            "DELETE FROM signing_keys"
            " WHERE purpose = %(purpose)s AND verify_until IS NULL"
            if revoke_previous
            else "UPDATE signing_keys SET verify_until = %(until)s"
            " WHERE purpose = %(purpose)s AND verify_until IS NULL",
            parameters,
        )
    kid = next_kid(
        ring.current.kid if ring.current else None, {key.kid for key in ring.keys}
    )
    execute(_INSERT, _new_row(purpose, kid))
    transaction.on_commit(forget_keys)
    return kid


def forget_keys() -> None:
    """Empty this process's cache; the next use reads again."""
    with _guard:
        _cache.clear()


def open_all_keys() -> int:
    """Open every key that is stored, and return how many there are.

    Raises SealBroken when the master keys that are set do not open one.
    """
    return sum(len(_load(purpose).keys) for purpose in KeyPurpose)


def _ring(purpose: KeyPurpose) -> Ring:
    with _guard:
        cached = _cache.get(purpose)
    if cached is None or elapsed_clock() - cached.read_at > CACHE_SECONDS:
        return _read(purpose)
    return cached.ring


def _may_reread(purpose: KeyPurpose) -> bool:
    now = elapsed_clock()
    with _guard:
        cached = _cache.get(purpose)
        if cached is None or now - cached.reread_at < REREAD_SECONDS:
            return False
        cached.reread_at = now
        return True


def _read(purpose: KeyPurpose) -> Ring:
    ring = _load(purpose)
    with _guard:
        earlier = _cache.get(purpose)
        cached = _Cached(ring, read_at=elapsed_clock())
        if earlier is not None:
            cached.reread_at = earlier.reread_at
        _cache[purpose] = cached
    return ring


def _load(purpose: KeyPurpose) -> Ring:
    rows = fetch_all(
        "SELECT kid, ciphertext, verify_until FROM signing_keys"
        " WHERE purpose = %(purpose)s ORDER BY kid",
        {"purpose": str(purpose)},
    )
    return Ring(
        tuple(
            RingKey(kid, sealer().open(sealed, place=_place(purpose, kid)), until)
            for kid, sealed, until in rows
        )
    )


def _make_first(purpose: KeyPurpose) -> None:
    """Store the first key of a purpose, on a connection of its own.

    The caller's transaction may end in a refusal, and what was signed meanwhile must
    verify; nor may others wait for its end. Whoever comes second changes nothing.
    """
    given = connection.get_connection_params()
    parameters = {name: given[name] for name in given.keys() - _NOT_FOR_PSYCOPG}
    row = _new_row(purpose, next_kid(None, frozenset()))
    with (
        connection.wrap_database_errors,
        psycopg.connect(**parameters, autocommit=True) as own,
    ):
        own.execute(f"{_INSERT} ON CONFLICT DO NOTHING", row)


def _new_row(purpose: KeyPurpose, kid: str) -> dict[str, str]:
    secret = secrets.token_bytes(SECRET_BYTES)
    return {
        "purpose": str(purpose),
        "kid": kid,
        "ciphertext": sealer().seal(secret, place=_place(purpose, kid)),
    }


def _place(purpose: KeyPurpose, kid: str) -> Place:
    return Place("signing_keys", "ciphertext", f"{purpose}:{kid}")
