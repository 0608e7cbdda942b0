"""What is forgotten with time: the ledger's rows, long after their sends have ended."""

from typing import Final

from core import clock
from core.database import execute
from outbound.ledger import OPEN

BATCH: Final = 1000

_PURGE: Final = f"""
DELETE FROM idempotency WHERE (identity_id, key_hash) IN (
  SELECT l.identity_id, l.key_hash FROM idempotency l
   WHERE l.expires_at <= (SELECT clock_timestamp() + %(clock_offset)s)
     AND NOT {OPEN}
   ORDER BY l.expires_at LIMIT %(batch)s FOR UPDATE SKIP LOCKED)
"""  # noqa: S608  constants only


def purge_ledger() -> int:
    """Delete ledger rows whose time has ended; return how many.

    A key whose send is open stays, even for one recipient alone: forgetting it would
    let a retry send again. Bounded statements, each its own transaction, so that no
    submit waits behind a long one.
    """
    deleted = 0
    while (rows := _purge_some()) > 0:
        deleted += rows
    return deleted


def _purge_some() -> int:
    return execute(_PURGE, {"clock_offset": clock.offset, "batch": BATCH})
