"""Every type of event that clients may be told of (REST contract, section 5.2). Pure.

Types are public: more are added, and none is renamed.
"""

from collections.abc import Iterable
from typing import Final

EVERYTHING: Final = "*"
"""What an endpoint asks for that wants every type, those of later versions too."""

MAIL: Final = "message."
TEST: Final = "webhook.test"
"""Sent to one endpoint when somebody asks for it; never in the feed, never replayed."""

PLATFORM_ONLY: Final = frozenset({"webhook.disabled"})
"""Types that the platform's endpoints and keys alone are told of."""

RAISED: Final = (
    "message.sent",
    "message.delivered",
    "message.deferred",
    "message.bounced",
    "message.complained",
    "message.rejected",
    "message.failed",
    "message.uncertain",
    "message.reconciled",
    "message.suppressed",
    "message.canceled",
    "message.received",
    "identity.created",
    "identity.updated",
    "identity.paused",
    "identity.resumed",
    "identity.address_added",
    "identity.address_activated",
    "identity.address_retired",
    "identity.address_promoted",
    "suppression.created",
    "quota.warning",
    "billing.limit_reached",
    "tenant.policy_updated",
)
"""Types that are raised by what changes mail, identities, quota and policies."""

OF_WEBHOOKS: Final = ("webhook.disabled", TEST)
"""Types that endpoints themselves give rise to."""

LATER: Final = (
    "identity.deleted",
    "domain.created",
    "domain.verified",
    "domain.degraded",
    "domain.failing",
    "domain.suspended",
    "domain.recovered",
    "domain.reminder",
    "domain.removed",
    "erasure.completed",
    "erasure.failed",
)
"""Types that are published, may be asked for, and are not raised by this version."""

EVENT_TYPES: Final = frozenset({*RAISED, *OF_WEBHOOKS, *LATER})


def is_mail(event_type: str) -> bool:
    """Tell whether a type tells of messages, which takes ``messages:read`` as well."""
    return event_type.startswith(MAIL)


def asks_for_mail(event_types: Iterable[str]) -> bool:
    """Tell whether an endpoint's types include one of messages, or everything."""
    return any(one == EVERYTHING or is_mail(one) for one in event_types)
