"""Every refusal says the one next step, in the imperative."""

import importlib
import importlib.util
import re
from collections.abc import Iterator

import pytest

from core.errors import PylotaError

APPS = [
    "core",
    "mailboxes",
    "domains",
    "quota",
    "suppressions",
    "webhooks",
    "delivery",
    "outbound",
]
STATEMENTS = {"A", "An", "It", "No", "Nobody", "Nothing", "The", "There", "This", "You"}
"""How a sentence begins that says what is wrong once more, and no step."""


def refusals() -> list[type[PylotaError]]:
    for app in APPS:
        if importlib.util.find_spec(f"{app}.errors") is not None:
            importlib.import_module(f"{app}.errors")
    named = [kind for kind in _below(PylotaError) if "code" in vars(kind)]
    return sorted(named, key=lambda kind: (kind.code, kind.__name__))


def _below(kind: type[PylotaError]) -> Iterator[type[PylotaError]]:
    for own in kind.__subclasses__():
        yield own
        yield from _below(own)


@pytest.mark.parametrize("kind", refusals(), ids=lambda kind: kind.code)
def test_a_refusal_tells_the_next_step(kind: type[PylotaError]) -> None:
    first = re.match(r"[A-Z][a-z]+", kind.fix)

    assert first is not None
    assert first[0] not in STATEMENTS
    assert kind.fix.endswith(".")
    assert len(kind.fix) <= 120


def test_refusals_of_one_code_have_one_status() -> None:
    known = {(kind.code, kind.status) for kind in refusals()}

    assert len(known) > 35
    assert len(known) == len({code for code, _ in known})


def test_who_may_try_again_is_told_to() -> None:
    for kind in refusals():
        if kind.retryable:
            assert re.search(r"[Rr]epeat|the same key|again", kind.fix), kind
