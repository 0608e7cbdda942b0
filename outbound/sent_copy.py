"""The sent copy: the composed bytes in the object store, written before any row lock.

A row never points at a missing object. A refusal takes the copy away again; a crash
leaves an orphan, which is swept.
"""

import json
from typing import Final

import structlog

from core import objects
from core.clock import elapsed_clock
from core.errors import ObjectStoreAway
from core.points import reach
from core.sealing import Place, sealer
from delivery.statuses import RecipientField
from outbound.compose import ComposedMessage
from outbound.ledger import Slot
from outbound.plan import SendPlan
from outbound.serializers import people

WRITE_SECONDS: Final = 10.0
"""How long the store may take; what comes later is refused, and nothing is stored."""


def copy_key(plan: SendPlan) -> str:
    """Return the object key of a plan's sent copy."""
    mailbox = f"t/{plan.tenant_id}/i/{plan.identity_id}"
    return f"{mailbox}/out/{plan.message_id}.eml"


def file_key(plan: SendPlan, attachment_id: str) -> str:
    """Return the object key of one attachment's bytes."""
    mailbox = f"t/{plan.tenant_id}/i/{plan.identity_id}"
    return f"{mailbox}/out/{plan.message_id}/a/{attachment_id}"


class SentCopy:
    """What one request has written, so that its refusal can take it away."""

    def __init__(self) -> None:
        """Begin with nothing written."""
        self.message_id: str | None = None
        self._keys: list[str] = []

    def write(self, plan: SendPlan, composed: ComposedMessage, slot: Slot) -> None:
        """Store the message with what rebuilds its ledger row, and its attachments.

        Raises ObjectStoreAway when the store fails or takes longer than 10 s.
        """
        until = elapsed_clock() + WRITE_SECONDS
        self.message_id = plan.message_id
        self.discard()  # an earlier version, composed before a wait
        for planned in plan.files:
            self._put(file_key(plan, planned.id), planned.file.content, {}, until=until)
        key = copy_key(plan)
        self._put(key, composed.mime, _metadata(plan, slot, key), until=until)
        reach("submit.copied")

    def discard(self) -> None:
        """Delete what was written, as far as the store lets us.

        The first failure ends it: with thirty files, a store that hangs would hold the
        thread for minutes. What stays is swept.
        """
        try:
            for key in self._keys:
                objects.delete(key)
        except ObjectStoreAway as error:
            log = structlog.get_logger()
            log.warning("sent_copy.orphaned", exc_info=error)
        self._keys.clear()

    def _put(
        self, key: str, body: bytes, metadata: dict[str, str], *, until: float
    ) -> None:
        self._keys.append(key)
        objects.put(key, body, metadata=metadata)
        if elapsed_clock() > until:  # asked after each: there may be 32 of them
            raise ObjectStoreAway("The object store took too long.")


def _metadata(plan: SendPlan, slot: Slot, key: str) -> dict[str, str]:
    """Return what a restore rebuilds from, beside the mail itself.

    The ledger row, the recipients in BCC, and where the message belongs: the thread,
    with its number where the Reply-To names it.
    """
    bcc = json.dumps(people(plan.in_field(RecipientField.BCC))).encode()
    return {
        "tenant": plan.tenant_id,
        "identity": plan.identity_id,
        "message": plan.message_id,
        "idem_key_sha256": slot.key_hash,
        "fingerprint": slot.fingerprint,
        "operation": str(slot.operation),
        "kind": str(plan.kind),
        "thread": plan.thread.id,
        "thread_seq": "" if plan.thread.seq is None else str(plan.thread.seq),
        "bcc": sealer().seal(bcc, place=Place("objects", "bcc", key)),
    }
