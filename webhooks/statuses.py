"""The states of endpoints and of what is sent to them."""

from django.db.models import TextChoices


class DisabledReason(TextChoices):
    """Why an endpoint gets nothing (REST contract, section 6)."""

    MANUAL = "manual"
    URL_CHANGED = "url_changed"
    FAILING = "failing"
    GONE = "gone"


class DispatchState(TextChoices):
    """How far one event has come on its way to one endpoint."""

    PENDING = "pending"
    SUCCEEDED = "succeeded"
    DEAD = "dead"


class AttemptStatus(TextChoices):
    """How one attempt ended; ``dead`` says that no other follows by itself."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    DEAD = "dead"


class AttemptError(TextChoices):
    """What an attempt failed with (REST contract, section 2.10)."""

    TIMEOUT = "timeout"
    DNS = "dns"
    TLS = "tls"
    CONNECT = "connect"
    REDIRECT = "redirect"
    STATUS_4XX = "status_4xx"
    STATUS_410 = "status_410"
    STATUS_5XX = "status_5xx"
    SSRF_BLOCKED = "ssrf_blocked"
    INVALID_URL = "invalid_url"
    SECRET_UNAVAILABLE = "secret_unavailable"  # noqa: S105  a name, not a secret
    EVENT_UNAVAILABLE = "event_unavailable"
    ENDPOINT_DISABLED = "endpoint_disabled"
