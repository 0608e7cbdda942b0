"""What becomes of a tenant's policy when a key asks for a change. Pure.

Fields are named by their path, e.g. ``abuse.bounce_rate_pause``. A platform key writes
all of them. A tenant key may bring some only down to or below a ceiling, one only into
force; the rest is its own (REST contract 2.1; security, section 8).
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from core.errors import ScopeDenied
from mailboxes.policy import BUILT_IN, effective_policy
from mailboxes.statuses import KeyLevel

LOWER_ONLY: Final = frozenset(
    {
        "identity_daily_send_cap",
        "tenant_daily_send_cap",
        "max_recipients",
        "auto_reply.allowed",
        "auto_reply.max_automatic_exchanges",
        "retention.raw_days",
        "retention.events_days",
        "abuse.complaint_rate_pause",
        "abuse.bounce_rate_pause",
        "abuse.tenant_complaint_rate_pause",
        "abuse.tenant_bounce_rate_pause",
    }
)
"""For a tenant key: at most the ceiling."""
TIGHTEN_ONLY: Final = frozenset({"send_allowlist_only"})
"""For a tenant key: a guard that it may put in force, and not lift."""


class PolicyDenied(ScopeDenied):
    """A tenant key asked for more than it may give itself."""

    fix = "Use a platform key, or a value at or below details.ceiling."


@dataclass(frozen=True, slots=True)
class Layers:
    """What a tenant's policy is made of, above the built-in one."""

    deployment: Mapping[str, Any]
    overrides: Mapping[str, Any]
    ceilings: Mapping[str, Any]

    def values(self) -> dict[str, Any]:
        """Return the policy in force, by field."""
        return by_field(effective_policy(self.deployment, self.overrides))

    def ceiling(self, field: str) -> Any:
        """Return the stricter of the deployment's value and the platform's."""
        default = by_field(effective_policy(self.deployment))[field]
        return min(default, by_field(self.ceilings).get(field, default))


@dataclass(frozen=True, slots=True)
class Change:
    """The columns after a change, and the fields that are no longer as they were."""

    overrides: dict[str, Any]
    ceilings: dict[str, Any]
    fields: tuple[str, ...]


def change(layers: Layers, wanted: Mapping[str, Any], *, by: KeyLevel) -> Change:
    """Return what a key's change comes to; null resets, an object is merged.

    Raises PolicyDenied, and nothing of the change counts then.
    """
    asked = by_field(wanted)
    before = by_field(layers.overrides), by_field(layers.ceilings)
    overrides = _with(before[0], asked)
    if by == KeyLevel.PLATFORM:
        ceilings = _with(before[1], {f: asked[f] for f in asked if f in LOWER_ONLY})
    else:
        ceilings = before[1]
        _refuse_above(layers, nested(overrides), asked)
    changed = [
        field
        for field in sorted(asked)
        if (overrides.get(field), ceilings.get(field))
        != (before[0].get(field), before[1].get(field))
    ]
    return Change(nested(overrides), nested(ceilings), tuple(changed))


def _with(known: Mapping[str, Any], asked: Mapping[str, Any]) -> dict[str, Any]:
    merged = {**known, **asked}
    return {field: value for field, value in merged.items() if value is not None}


def _refuse_above(
    layers: Layers, overrides: Mapping[str, Any], fields: Iterable[str]
) -> None:
    """Raise PolicyDenied for the first field that a tenant may not bring there."""
    before = layers.values()
    after = Layers(layers.deployment, overrides, layers.ceilings).values()
    for field in sorted(fields):
        if after[field] == before[field]:
            continue
        if field in LOWER_ONLY and after[field] > (ceiling := layers.ceiling(field)):
            raise PolicyDenied(
                f"A tenant key may not bring {field} above its ceiling.",
                details=_why(field, "above_ceiling", ceiling),
            )
        if field in TIGHTEN_ONLY and not after[field]:
            raise PolicyDenied(
                f"A tenant key may not lift {field}.",
                details=_why(field, "not_writable", before[field]),
            )


def _why(field: str, reason: str, ceiling: Any) -> dict[str, Any]:
    return {"field": field, "reason": reason, "ceiling": ceiling}


def by_field(layer: Mapping[str, Any]) -> dict[str, Any]:
    """Return a layer's values by field; a null object stands for each field of it."""
    return dict(_fields(layer, BUILT_IN, ""))


def _fields(
    layer: Mapping[str, Any], known: Mapping[str, Any], prefix: str
) -> Iterator[tuple[str, Any]]:
    for name, value in layer.items():
        under = known.get(name)
        if isinstance(under, Mapping):
            inner = dict.fromkeys(under) if value is None else value
            yield from _fields(inner, under, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def nested(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return values by field as a layer is stored: objects in objects."""
    layer: dict[str, Any] = {}
    for field, value in sorted(values.items()):
        *parents, name = field.split(".")
        place = layer
        for parent in parents:
            place = place.setdefault(parent, {})
        place[name] = value
    return layer
