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
    """Return the names of the parameters that a method is described to take."""
    what = getattr(method, KEPT, {})
    return frozenset(parameter.name for parameter in what.get("parameters", ()))
