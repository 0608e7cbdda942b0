"""What the fields of an identity write, and which of them changed: pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from core.errors import ScopeDenied


@dataclass(frozen=True, slots=True)
class NewIdentity:
    """What a new identity is made of; ``given`` holds the fields that may change."""

    username: str
    given: Mapping[str, Any] = field(default_factory=dict)
    client_id: str | None = None
    fingerprint: str | None = None


class Row(Protocol):
    """A row that is read by the names of its columns."""

    def __getattribute__(self, name: str, /) -> Any:
        """Return a column."""


def columns_of(
    given: Mapping[str, Any], *, send_policy: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the columns that the given fields write; ``None`` resets a field.

    A ``send_policy`` is laid over the one that stands, where ``None`` resets a rule;
    every other object replaces what stands. The HTML of a signature is safe already.
    """
    columns: dict[str, Any] = {}
    for name, value in given.items():
        columns |= _columns(name, value, send_policy)
    return columns


def _columns(name: str, value: Any, send_policy: Mapping[str, Any]) -> dict[str, Any]:
    match name:
        case "owner":
            owner = value or {}
            return {"owner_name": owner.get("name"), "owner_email": owner.get("email")}
        case "signature":
            parts = value or {}
            return {
                "signature_text": parts.get("text"),
                "signature_html": parts.get("html"),
            }
        case "send_policy":
            rules = {} if value is None else {**send_policy, **value}
            return {name: {k: rule for k, rule in rules.items() if rule is not None}}
        case "metadata":
            return {name: value or {}}
        case _:
            return {name: value}


def changed_columns(
    given: Mapping[str, Any], columns: Mapping[str, Any], row: Row
) -> list[str]:
    """Return the given fields whose columns are no longer as the row has them."""
    return sorted(
        name
        for name in given
        if any(
            getattr(row, column) != columns[column]
            for column in columns
            if column == name or column.startswith(f"{name}_")
        )
    )


def check_daily_cap(given: Mapping[str, Any], *, ceiling: int | None) -> None:
    """Raise ScopeDenied for a daily cap above what the key may give.

    ``ceiling`` is the tenant's cap for an identity; None for who may go above it.
    """
    cap = (given.get("send_policy") or {}).get("daily_cap")
    if cap is not None and ceiling is not None and cap > ceiling:
        raise ScopeDenied(
            f"The daily cap is above the tenant's cap for an identity, {ceiling}.",
            details={
                "field": "send_policy.daily_cap",
                "reason": "above_ceiling",
                "ceiling": ceiling,
            },
        )
