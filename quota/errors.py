"""Why a send is refused for its amount."""

from core.errors import PylotaError


class DailyCapReached(PylotaError):
    """The identity or its tenant has accepted its last message of the local day.

    ``details.cap`` says whose cap it is, ``details.resets_at`` when the day ends.
    """

    code = "daily_cap_reached"
    status = 429
    retryable = True
    fix = "Wait until details.resets_at or raise the cap; then use the same key."
