"""The ledger of idempotency keys: the earlier answer, and the key in flight.

The unique key (identity, key hash) is the promise; the advisory lock makes the race
polite. It belongs to the transaction, so it cannot outlive its request.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from core import clock
from core.database import fetch_one
from core.errors import IdempotencyConflict, IdentityNotFound, RequestInProgress
from mailboxes.callers import Caller
from mailboxes.statuses import Operation

OPEN: Final = """
   EXISTS (SELECT 1 FROM messages m
            WHERE m.id = l.message_id
              AND (m.status IN ('queued', 'uncertain')
                   OR m.status <> 'canceled'
                      AND EXISTS (SELECT 1 FROM deliveries d
                                   WHERE d.message_pk = m.pk
                                     AND d.status IN ('queued', 'uncertain'))))
"""
"""A row ``l`` whose send is not over: nobody knows yet what became of a recipient.

The message may be ``submitted`` while the call's end is unknown for one of them. The
deliveries of a canceled message stay queued, and are over.
"""

LIVE: Final = f"""
   (l.expires_at IS NULL OR l.expires_at > clock_timestamp() + %(clock_offset)s
    OR {OPEN})
"""
"""A row ``l`` that still answers: a key whose send is open does not expire."""

_FIRST_LOOK: Final = f"""
SELECT l.fingerprint, l.message_id, l.response
  FROM identities i
  LEFT JOIN idempotency l
    ON l.identity_id = i.id AND l.key_hash = %(key_hash)s AND {LIVE}
 WHERE i.id = %(identity)s
   AND (%(tenant)s::text IS NULL OR i.tenant_id = %(tenant)s)
   AND (%(only)s::text IS NULL OR i.id = %(only)s)
"""  # noqa: S608  constants only
_LOOK: Final = f"""
SELECT l.fingerprint, l.message_id, l.response
  FROM idempotency l
 WHERE l.identity_id = %(identity)s AND l.key_hash = %(key_hash)s AND {LIVE}
"""  # noqa: S608  constants only


@dataclass(frozen=True, slots=True)
class Slot:
    """One place of the ledger, and the request that wants to stand there."""

    identity_id: str
    key_hash: str
    fingerprint: str
    operation: Operation

    def lock_number(self) -> int:
        """Return the first 64 bits of SHA-256(identity, key hash), signed."""
        digest = hashlib.sha256(f"{self.identity_id}\0{self.key_hash}".encode())
        return int.from_bytes(digest.digest()[:8], signed=True)


@dataclass(frozen=True, slots=True)
class Accepted:
    """An accepted send: the message as it was answered, now or earlier."""

    message: Mapping[str, Any]
    deduplicated: bool


def find_replay(slot: Slot) -> Accepted | None:
    """Return the earlier answer to this request, or None.

    Raises IdempotencyConflict when the key stands for another request.
    """
    return replay_of(slot, fetch_one(_LOOK, _parameters(slot)))


def find_replay_within(slot: Slot, *, caller: Caller) -> Accepted | None:
    """Do the same within the reach of a key; raises IdentityNotFound outside it."""
    reach = {"tenant": caller.tenant_id, "only": caller.identity_id}
    row = fetch_one(_FIRST_LOOK, {**_parameters(slot), **reach})
    if row is None:
        raise IdentityNotFound("No such identity.")
    return replay_of(slot, row)


def replay_of(slot: Slot, row: tuple[Any, ...] | None) -> Accepted | None:
    """Judge a row (fingerprint, message id, answer) of the slot; None if there is none.

    Raises IdempotencyConflict.
    """
    if row is None or row[0] is None:
        return None
    fingerprint, message_id, response = row
    if fingerprint != slot.fingerprint:
        raise IdempotencyConflict(
            "This Idempotency-Key was used for another request.",
            details={"original_message_id": message_id},
        )
    return Accepted(json.loads(response), deduplicated=True)


def hold_key(slot: Slot) -> None:
    """Take the key until the transaction ends; raises RequestInProgress if it is taken.

    Whoever got it looks again in a statement of its own: what committed before the lock
    was granted is not in the snapshot of the statement that took it.
    """
    row = fetch_one(
        "SELECT pg_try_advisory_xact_lock(%(number)s)", {"number": slot.lock_number()}
    )
    if row is None or not row[0]:
        raise RequestInProgress("A request with this Idempotency-Key is in progress.")


def wait_for_key(slot: Slot) -> None:
    """Take the key when whoever holds it is done; waits as long as any lock may.

    Raises OperationalError past the connection's ``lock_timeout``.
    """
    fetch_one(
        "SELECT pg_advisory_xact_lock(%(number)s)", {"number": slot.lock_number()}
    )


def _parameters(slot: Slot) -> dict[str, Any]:
    return {
        "identity": slot.identity_id,
        "key_hash": slot.key_hash,
        "clock_offset": clock.offset,
    }
