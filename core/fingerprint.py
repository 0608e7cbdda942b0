"""Pure: what makes two requests under one Idempotency-Key the same request."""

from typing import Any

from core.canonical import canonical_json, sha256_hex


def fingerprint(operation: str, target: str, body: Any) -> str:
    """Return the hash of a request: the same for the same content, however spelled.

    ``body`` is the parsed JSON as received: order of keys and white space are gone,
    nothing else is forgiven (the page, "Idempotency fingerprint"). ``target`` is the
    identity's id, or ``{identity}/{message}`` where a message is answered. Raises
    ValueError for a body that has no canonical form.
    """
    whole = {"body": body, "operation": operation, "target": target}
    return sha256_hex(canonical_json(whole))
