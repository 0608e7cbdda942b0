"""Fixtures of the tests that run real processes."""

from tests.support.processes import processes

__all__ = ["processes"]
