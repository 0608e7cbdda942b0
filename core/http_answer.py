"""What came back for one HTTP request: pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Answer:
    """A complete answer to one HTTP request; header names in lower case."""

    status: int
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)
