"""When the outcomes of an identity's mail are too bad for it to go on. Pure.

The denominators are the windows' sizes, however few outcomes there are: a young
identity is not stopped by its first complaint (the page, "Abuse auto-pause").
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from django.db.models import TextChoices

COMPLAINT_WINDOW: Final = 1000
"""Complaints are counted among so many of the latest outcomes; more are not kept."""

BOUNCE_WINDOW: Final = 200
"""Hard bounces are counted among so many."""


class Outcome(TextChoices):
    """What became of one recipient, as far as it speaks for or against the sender."""

    DELIVERED = "delivered"
    BOUNCED = "bounced"
    COMPLAINED = "complained"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class Counted:
    """The bad outcomes in an identity's windows."""

    complaints: int
    bounces: int

    def is_abuse(self, rates: Mapping[str, float]) -> bool:
        """Tell whether one of a policy's ``abuse`` rates is exceeded, not just met."""
        return (
            self.complaints / COMPLAINT_WINDOW > rates["complaint_rate_pause"]
            or self.bounces / BOUNCE_WINDOW > rates["bounce_rate_pause"]
        )

    def metrics(self) -> dict[str, int]:
        """Return what is told of a pause: the counts, each with its window."""
        return {
            "complaints": self.complaints,
            "complaint_window": COMPLAINT_WINDOW,
            "bounces": self.bounces,
            "bounce_window": BOUNCE_WINDOW,
        }
