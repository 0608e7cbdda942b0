"""What a provider event means for its recipient: pure (the page, "Delivery events")."""

from typing import Final, Literal

from delivery.events import DeliveryEvent
from delivery.statuses import DeliveryKind
from suppressions.statuses import SuppressionReason

PROVIDER_VALIDATION: Final = "provider_validation"


def bounce_type_of(event: DeliveryEvent) -> Literal["hard", "soft"] | None:
    """Return ``hard`` or ``soft`` for a bounce."""
    if event.kind != DeliveryKind.BOUNCED:
        return None
    return "hard" if event.hard else "soft"


def reason_of(event: DeliveryEvent) -> str | None:
    """Return the reason that a delivery shows (REST contract, section 2.7)."""
    match event.kind, event.hard:
        case ((DeliveryKind.FAILED | DeliveryKind.REJECTED), _):
            return PROVIDER_VALIDATION
        case _:
            return suppression_of(event)


def suppression_of(event: DeliveryEvent) -> SuppressionReason | None:
    """Return why the recipient must not be mailed again, if it must not.

    A soft bounce suppresses nobody. A provider that bounced the mail because of its own
    list says no more than that the address stands there.
    """
    match event.kind, event.hard:
        case DeliveryKind.BOUNCED, True if event.by_provider_list:
            return SuppressionReason.PROVIDER
        case DeliveryKind.BOUNCED, True:
            return SuppressionReason.HARD_BOUNCE
        case DeliveryKind.COMPLAINED, _:
            return SuppressionReason.COMPLAINT
        case _:
            return None
