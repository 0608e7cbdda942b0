"""What is forgotten with time: the ledger's rows, long after their sends have ended."""

from typing import Final

from core import clock
from core.sweeps import until_none
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
    return until_none(_PURGE, {"clock_offset": clock.offset, "batch": BATCH})
