"""A policy value by value, with the layer that each comes from. Pure."""

from collections.abc import Mapping
from typing import Any

from mailboxes.policy_changes import by_field


def sources_of(
    layers: Mapping[str, Mapping[str, Any]],
) -> list[tuple[str, object, str]]:
    """Return path, value and layer of each value; a later layer wins over an earlier.

    A ``None`` in any but the first layer says nothing, as when policies are merged.
    """
    found: dict[str, tuple[object, str]] = {}
    for name, layer in layers.items():
        for path, value in by_field(layer).items():
            if path not in found or value is not None:
                found[path] = (value, name)
    return [(path, value, name) for path, (value, name) in found.items()]
