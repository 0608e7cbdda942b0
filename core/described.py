"""What the description of the API says of a call, kept beside it until somebody asks.

Nothing of the generator is loaded by a server that only answers.
"""

from collections.abc import Callable
from typing import Any, Final, TypeVar

C = TypeVar("C", bound=Callable[..., Any])

KEPT: Final = "described"


def described(**what: Any) -> Callable[[C], C]:
    """Keep what drf-spectacular's ``extend_schema`` takes, on the method it is of."""

    def keep(method: C) -> C:
        setattr(method, KEPT, what)
        return method

    return keep


def described_parameters(method: object) -> frozenset[str]:
    """Return the names that a method is described to take after the ``?``."""
    parameters = getattr(method, KEPT, {}).get("parameters", ())
    return frozenset(one.name for one in parameters if one.location == one.QUERY)
