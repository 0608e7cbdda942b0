"""Pure: the fields of a stored answer in the order in which they were first shown.

The ledger's jsonb keeps values and forgets their order; whoever compares bytes, or
reads, should not see a replay shuffled.
"""

from collections.abc import Mapping
from typing import Any, Final

from pydantic import BaseModel

from outbound.api.schemas import AttachmentOut, DeliveryOut, MessageOut, NamedAddress

Json = dict[str, Any]


def _names(model: type[BaseModel]) -> tuple[str, ...]:
    return tuple(f.alias or name for name, f in model.model_fields.items())


_MESSAGE: Final = _names(MessageOut)
_PERSON: Final = _names(NamedAddress)
_INNER: Final[Mapping[str, tuple[str, ...]]] = {
    **dict.fromkeys(("from", "to", "cc", "bcc", "reply_to"), _PERSON),
    "attachments": _names(AttachmentOut),
    "deliveries": _names(DeliveryOut),
}


def in_order(message: Mapping[str, Any]) -> Json:
    """Return the message with its fields, and theirs, as the description lists them.

    The names in ``metadata`` are the client's: by the alphabet. What is not listed,
    from an earlier version, comes last.
    """
    ordered = _arranged(message, _MESSAGE)
    for name, names in _INNER.items():
        value = ordered.get(name)
        if isinstance(value, Mapping):
            ordered[name] = _arranged(value, names)
        elif isinstance(value, list):
            ordered[name] = [_arranged(item, names) for item in value]
    if isinstance(metadata := ordered.get("metadata"), Mapping):
        ordered["metadata"] = dict(sorted(metadata.items()))
    return ordered


def _arranged(value: Mapping[str, Any], names: tuple[str, ...]) -> Json:
    listed = {name: value[name] for name in names if name in value}
    return {**listed, **value}
