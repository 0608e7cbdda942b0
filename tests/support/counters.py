"""Reading what was counted, as a scrape would see it."""

from collections.abc import Iterator
from contextlib import contextmanager

from prometheus_client import REGISTRY


def value_of(name: str, **labels: str) -> float:
    """Return a counter's value; 0 before its first count."""
    return REGISTRY.get_sample_value(name, labels) or 0.0


@contextmanager
def counts(name: str, by: int, **labels: str) -> Iterator[None]:
    """Hold that the block raises a counter by so much."""
    before = value_of(name, **labels)
    yield
    assert value_of(name, **labels) - before == by, name
