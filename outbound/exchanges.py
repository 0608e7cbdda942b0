"""Reading what stops a loop: automatic replies in a row, and a thread's hop.

The page, "Automatic-exchange cap"; mailboxes, section 4.4. Asked once among the facts,
and the count again under the mailbox's lock (architecture section 3, step 7).
"""

import json
from typing import Final

from core.database import fetch_one
from outbound.loops import hop_of

_EXCHANGES: Final = """
SELECT count(*)
  FROM messages
 WHERE thread_pk = %(thread)s AND direction = 'outbound' AND kind = 'auto_reply'
   AND status NOT IN ('canceled', 'rejected', 'failed', 'suppressed')
   AND pk > coalesce((SELECT max(pk) FROM messages
                       WHERE thread_pk = %(thread)s AND direction = 'outbound'
                         AND kind <> 'auto_reply'), 0)
"""
_NEWEST_INBOUND: Final = """
SELECT automated
  FROM messages
 WHERE thread_pk = %(thread)s AND direction = 'inbound'
   AND status IN ('received', 'quarantined')
 ORDER BY pk DESC
 LIMIT 1
"""


def automatic_exchanges(thread_key: int) -> int:
    """Return the automatic replies since the thread's last other message of ours.

    Those that did not go out do not count. Joins the caller's transaction, if any.
    """
    row = fetch_one(_EXCHANGES, {"thread": thread_key})
    return int(row[0]) if row else 0


def thread_hop(thread_key: int) -> int:
    """Return the hop of the thread's newest inbound message; 0 without any.

    It is what a send into a thread, or an answer to our own message, goes on from.
    """
    row = fetch_one(_NEWEST_INBOUND, {"thread": thread_key})
    return hop_of(json.loads(row[0])) if row and row[0] else 0
