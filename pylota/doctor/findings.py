"""What a look at one part of a deployment found."""

from dataclasses import asdict, dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Final


class Health(StrEnum):
    """How a part is; only what fails makes the whole fail."""

    OK = "ok"
    UNUSED = "unused"
    FAIL = "fail"
    UNKNOWN = "unknown"


SHOWN: Final = {
    Health.OK: "ok",
    Health.UNUSED: "not used",
    Health.FAIL: "FAIL",
    Health.UNKNOWN: "?",
}


@dataclass(frozen=True, slots=True)
class Found:
    """How a part is, a few words more, and for one that fails what to do next."""

    health: Health
    detail: str
    next: str | None = None


@dataclass(frozen=True, slots=True)
class Finding:
    """What was found, under the name of the part."""

    name: str
    found: Found

    @property
    def is_bad(self) -> bool:
        """Tell whether somebody has to do something."""
        return self.found.health == Health.FAIL

    def line(self) -> str:
        """Return the line that a person reads."""
        found = self.found
        text = f"{self.name:<18}  {SHOWN[found.health]:<8}  {found.detail}".rstrip()
        return f"{text}. Next: {found.next}." if found.next else text

    def to_json(self) -> dict[str, str | None]:
        """Return what a program reads."""
        found = asdict(self.found)
        return {"name": self.name, "status": str(found.pop("health")), **found}


def ok(detail: str = "") -> Found:
    """Say that all is well."""
    return Found(Health.OK, detail)


def unused(detail: str) -> Found:
    """Say that this deployment has no need of it."""
    return Found(Health.UNUSED, detail)


def fail(detail: str, *, then: str) -> Found:
    """Say what is wrong, and the one thing to do next."""
    return Found(Health.FAIL, detail, then)


def unknown(detail: str) -> Found:
    """Say why nobody can tell."""
    return Found(Health.UNKNOWN, detail)


def number_of(count: int, one: str, many: str | None = None) -> str:
    """Return a count with its noun: ``1 send``, ``2 sends``."""
    return f"{count} {one if count == 1 else many or one + 's'}"


def age_of(age: timedelta) -> str:
    """Return an age as a person says it, in its largest whole unit: ``38 min``."""
    seconds = max(0, int(age.total_seconds()))
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds // size} {unit}"
    return f"{seconds} s"
