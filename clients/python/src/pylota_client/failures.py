"""Pure: all that is known of a call that failed, and how it is told to a person."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

NO_ANSWER = "no_answer"
UNEXPECTED = "unexpected_answer"
"""Codes of what the API itself never says."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """All that is known of a call that failed."""

    code: str
    message: str
    fix: str = ""
    status: int | None = None
    retryable: bool = False
    request_id: str | None = None
    details: Mapping[str, Any] = field(default_factory=dict)
    retry_after: float | None = None
    idempotency_key: str | None = None
    may_be_accepted: bool = False
    gave_up: bool = False
    attempts: int = 1
    seconds: float = 0.0

    def __str__(self) -> str:
        """Say what happened, what to do, and what is known of the send."""
        parts = (
            f"{self.message} [{', '.join(self._marks())}]",
            self.fix,
            self._end() if self.gave_up else "",
            self._send() if self.idempotency_key is not None else "",
        )
        return " ".join(part for part in parts if part)

    def _marks(self) -> list[str]:
        status = [] if self.status is None else [f"HTTP {self.status}"]
        return [self.code, *status, *([self.request_id] if self.request_id else [])]

    def _end(self) -> str:
        times = "1 attempt" if self.attempts == 1 else f"{self.attempts} attempts"
        asked = self.retry_after
        wish = "" if asked is None else f"; the server asks for {asked:.0f} s more"
        return f"Gave up after {times} in {self.seconds:.0f} s{wish}."

    def _send(self) -> str:
        if self.may_be_accepted:
            return (
                "The send may have been accepted: repeat it with the same content and "
                f"idempotency_key={self.idempotency_key!r}; that makes no second email."
            )
        return (
            "No attempt of this call was accepted; its key is "
            f"idempotency_key={self.idempotency_key!r}."
        )
