"""Who acts where no API key does: a person in the admin, and why they do it.

What a person changes goes through the same services as the API. Their account and
their reason belong into every audit row that this leaves, without each service passing
them on.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Person:
    """A member of the staff, and the reason that they gave."""

    user_id: str
    reason: str = ""


_present: ContextVar[Person | None] = ContextVar("person", default=None)


@contextmanager
def acting(user_id: str, *, reason: str = "") -> Iterator[None]:
    """Let the audit rows written inside name this person and this reason."""
    token = _present.set(Person(user_id, reason))
    try:
        yield
    finally:
        _present.reset(token)


def person() -> Person | None:
    """Return who acts in this thread, if a person does."""
    return _present.get()
