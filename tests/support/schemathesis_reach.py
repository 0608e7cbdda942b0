"""A last check of a whole run, loaded by Schemathesis itself: what it never reached.

For runs with enough cases; it brings the other check along.
"""

from typing import Any

import schemathesis

from tests.support import schemathesis_checks

__all__ = ["schemathesis_checks"]


@schemathesis.check
class EveryCallSucceedsOnce:
    """Fail when an operation that the key may call gave nothing but refusals."""

    def __init__(self) -> None:
        """Start with nothing tried."""
        self.tried: set[str] = set()
        self.allowed: set[str] = set()
        self.succeeded: set[str] = set()

    def after_response(self, ctx: Any, response: Any, case: Any) -> None:
        """Note what came of one call."""
        self.tried.add(case.operation.label)
        if response.status_code not in (401, 403):
            self.allowed.add(case.operation.label)
        if 200 <= response.status_code < 300:
            self.succeeded.add(case.operation.label)

    def after_run(self, ctx: Any) -> None:
        """Name the operations that never succeeded."""
        if never := sorted((self.tried & self.allowed) - self.succeeded):
            raise AssertionError(f"never succeeded: {', '.join(never)}")
