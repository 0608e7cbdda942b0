"""What the parts of a path are, said once for every route that has them."""

from collections.abc import Mapping
from typing import Any, Final

from core.ids import ID_PATTERN
from mailboxes.statuses import KeyPurpose


def _id(prefix: str, what: str) -> dict[str, Any]:
    pattern = ID_PATTERN.format(prefix=prefix)
    return {"schema": {"type": "string", "pattern": pattern}, "description": what}


_LINE: Final = r"^[^\x00-\x1f\x7f]+$"

PATH_PARTS: Final[Mapping[str, dict[str, Any]]] = {
    "tenant_id": _id("ten", "The tenant."),
    "identity_id": _id("idn", "The identity."),
    "address_id": _id("adr", "One of the identity's addresses."),
    "thread_id": _id("thr", "One of the identity's threads."),
    "message_id": _id("msg", "One of the identity's messages."),
    "attachment_id": _id("att", "One of the message's files."),
    "key_id": _id("key", "The API key."),
    "webhook_id": _id("whk", "The webhook endpoint."),
    "purpose": {
        "schema": {"type": "string", "enum": KeyPurpose.values},
        "description": "What the keys of this ring sign.",
    },
    "direction": {
        "schema": {"type": "string", "enum": ["receive", "send"]},
        "description": "Whether it is about mail that comes, or that goes.",
    },
    "kind": {
        "schema": {"type": "string", "enum": ["allow", "block"]},
        "description": "What the list does with an address that is on it.",
    },
    "entry": {
        "schema": {"type": "string", "pattern": _LINE},
        "description": "`user@domain`, or `@domain` for all of it, in any spelling;"
        " percent-encoded.",
        "example": "@example.org",
    },
    "address": {
        "schema": {"type": "string", "pattern": _LINE},
        "description": "The address in any spelling, percent-encoded.",
        "example": "jo@example.net",
    },
    "token": {
        "schema": {"type": "string", "minLength": 1},
        "description": "What the link ends with; it is its own key.",
    },
}
"""A part of a path by its name, as OpenAPI writes a parameter."""
