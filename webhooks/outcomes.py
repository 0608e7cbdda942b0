"""How an attempt ended: pure."""

from dataclasses import dataclass

from webhooks.statuses import AttemptError


@dataclass(frozen=True, slots=True)
class Outcome:
    """The end of one attempt; without an error the receiver has taken the event.

    ``detail`` is a word or two for a person, never what the receiver said.
    ``duration_ms`` is None where no request was made.
    """

    error: AttemptError | None = None
    http_status: int | None = None
    detail: str = ""
    duration_ms: int | None = None

    @property
    def is_success(self) -> bool:
        """Say whether the receiver has the event."""
        return self.error is None


def error_of(http_status: int) -> AttemptError | None:
    """Return what a status says of an attempt: all but 2xx is a failure."""
    match http_status // 100:
        case 2:
            return None
        case 3:
            return AttemptError.REDIRECT
        case 4 if http_status == 410:
            return AttemptError.STATUS_410
        case 4:
            return AttemptError.STATUS_4XX
    return AttemptError.STATUS_5XX
