"""Custom headers: which a caller may set, and those that the service sets. Pure.

Outbound tables, section 3. What a provider would refuse is refused at the request, with
its place, and never becomes a later ``rejected``.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from core.errors import FieldError
from core.text import header_fault
from mailboxes.statuses import MessageKind

NAME_BYTES: Final = 100
VALUE_BYTES: Final = 2048
ALL_BYTES: Final = 16 * 1024
"""Names and values of all custom headers, the service's included."""
PLAIN_LIMIT: Final = 20
"""Headers whose names do not start with ``X-``, the service's included."""
HOP: Final = "X-Pylota-Mail-Hop"

Header = tuple[str, str]

PLAIN_HEADERS: Final[Mapping[str, tuple[str, ...] | None]] = {
    "Importance": ("high", "normal", "low"),
    "Priority": ("normal", "non-urgent", "urgent"),
    "Sensitivity": ("personal", "private", "company-confidential"),
    "Keywords": None,
    "Comments": None,
    "Organization": None,
}
"""Names besides ``X-…`` that callers may set, and the values that some may have."""

_CASING: Final = {name.lower(): name for name in PLAIN_HEADERS}
_EXTENSION: Final = re.compile(r"[Xx]-[A-Za-z0-9_-]+")
_RESERVED: Final = re.compile(r"x-pylota-.*|x-ai-generated", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class JudgedHeaders:
    """What became of the headers of a request.

    ``forbidden`` are names that no caller sets (400 ``header_not_allowed``),
    ``invalid`` what is wrong with the others (400 ``invalid_request``), and ``allowed``
    the headers as they go out; empty unless both lists are.
    """

    allowed: tuple[Header, ...] = ()
    forbidden: tuple[FieldError, ...] = ()
    invalid: tuple[FieldError, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceHeaders:
    """What decides the headers that the service sets itself.

    ``hop`` counts how often a message has been answered or forwarded on its way;
    ``unsubscribe`` are the headers of RFC 8058, where the message has any.
    """

    kind: MessageKind
    hop: int = 1
    is_disclosed_in_header: bool = False
    unsubscribe: tuple[Header, ...] = ()


def service_headers(facts: ServiceHeaders) -> tuple[Header, ...]:
    """Return the service's own headers, but for In-Reply-To and References."""
    found: list[Header] = [(HOP, str(facts.hop))]
    if facts.kind == MessageKind.AUTO_REPLY:
        found.append(("Auto-Submitted", "auto-replied"))
    if facts.is_disclosed_in_header:
        found.append(("X-AI-Generated", "true"))
    return (*found, *facts.unsubscribe)


def judge_headers(
    given: Mapping[str, str], *, service: Iterable[Header] = ()
) -> JudgedHeaders:
    """Judge a caller's headers beside those that the service will set.

    ``service`` includes In-Reply-To and References where there are any: they count
    towards the limits. Forbidden names are told before invalid values.
    """
    forbidden = tuple(
        FieldError(f"headers.{_shown(name)}", "Callers may not set this header.")
        for name in given
        if not is_free(name)
    )
    if forbidden:
        return JudgedHeaders(forbidden=forbidden)
    own = list(service)
    invalid = (*_each_fault(given), *_common_faults(given, own))
    if invalid:
        return JudgedHeaders(invalid=invalid)
    return JudgedHeaders(tuple(_as_sent(name, value) for name, value in given.items()))


def is_free(name: str) -> bool:
    """Tell whether callers may set a header of this name, in whatever case."""
    if name.lower() in _CASING:
        return True
    return (
        len(name.encode()) <= NAME_BYTES
        and _EXTENSION.fullmatch(name) is not None
        and _RESERVED.fullmatch(name) is None
    )


def _each_fault(given: Mapping[str, str]) -> Iterator[FieldError]:
    seen: set[str] = set()
    for name, value in given.items():
        folded = name.lower()
        if folded in seen:
            yield FieldError(f"headers.{name}", "The name stands twice.")
        seen.add(folded)
        if (fault := _value_fault(folded, value)) is not None:
            yield FieldError(f"headers.{name}", fault)


def _value_fault(folded: str, value: str) -> str | None:
    if not value.strip():
        return "The value is empty."
    if (fault := header_fault(value)) is not None:
        return f"The value {fault}."
    if len(value.encode()) > VALUE_BYTES:
        return f"The value is over {VALUE_BYTES} bytes."
    listed = PLAIN_HEADERS.get(_CASING.get(folded, ""))
    if listed is not None and value.lower() not in listed:
        return f"The value must be one of {', '.join(listed)}."
    return None


def _common_faults(given: Mapping[str, str], own: list[Header]) -> Iterator[FieldError]:
    together = [*given.items(), *own]
    plain = [name for name, _ in together if not name.lower().startswith("x-")]
    if len(plain) > PLAIN_LIMIT:
        yield FieldError("headers", f"More than {PLAIN_LIMIT} headers without X-.")
    size = sum(
        len(name) + len(value.encode("utf-8", "replace")) for name, value in together
    )
    if size > ALL_BYTES:
        yield FieldError("headers", "All custom headers together are over 16 KB.")


def _as_sent(name: str, value: str) -> Header:
    """Return a header as it goes out: plain names in their casing, others as given."""
    plain = _CASING.get(name.lower(), name)
    return (plain, value.lower() if PLAIN_HEADERS.get(plain) is not None else value)


def _shown(name: str) -> str:
    """Return a name in a form that any answer can carry."""
    return name.encode("ascii", "backslashreplace").decode()[:NAME_BYTES]
