"""One request to send: who asks, under which key, and for what."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from core.fingerprint import fingerprint
from mailboxes.callers import Caller
from mailboxes.statuses import Operation
from outbound.ledger import Slot
from outbound.requests import AnyRequest


@dataclass(frozen=True, slots=True)
class Order:
    """What a caller wants sent; ``message_id`` is what is answered or forwarded.

    ``original_html`` is the HTML of our own message that is forwarded, sanitised.
    """

    caller: Caller
    identity_id: str
    key_hash: str
    body: Mapping[str, Any]
    request: AnyRequest
    started: float
    operation: Operation = Operation.SEND
    message_id: str | None = None
    original_html: str | None = field(default=None, repr=False)

    def slot(self) -> Slot:
        """Return its place in the ledger; the hash is over the body as received."""
        digest = fingerprint(self.operation, self._target(), self.body)
        return Slot(self.identity_id, self.key_hash, digest, self.operation)

    def _target(self) -> str:
        if self.message_id is None:
            return self.identity_id
        return f"{self.identity_id}/{self.message_id}"
