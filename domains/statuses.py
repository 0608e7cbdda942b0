"""The states and methods of sending domains (quota and domains, part B)."""

from django.db.models import TextChoices


class DomainKind(TextChoices):
    """The platform's own domain, or a customer's."""

    PLATFORM = "platform"
    EXTERNAL = "external"


class Method(TextChoices):
    """How a domain is connected; it fixes the other columns."""

    PLATFORM = "platform"
    CLOUDFLARE_ZONE = "cloudflare_zone"
    DNS_RECORDS = "dns_records"
    SEND_ONLY = "send_only"
    SMTP_RELAY = "smtp_relay"


class Inbound(TextChoices):
    """How mail to the domain comes in."""

    DIRECT = "direct"
    SES = "ses"
    FORWARD = "forward"
    NONE = "none"


class Transport(TextChoices):
    """What carries a domain's mail."""

    CLOUDFLARE = "cloudflare"
    SES = "ses"
    SMTP = "smtp"


class ReplyToken(TextChoices):
    """Whether replies can carry a thread token in a sub-address."""

    SUBADDRESS = "subaddress"
    NONE = "none"


class DomainState(TextChoices):
    """How far a domain's records can be trusted."""

    PENDING = "pending"
    VERIFYING = "verifying"
    HEALTHY = "healthy"
    DEGRADED = "degraded"
    FAILING = "failing"
    SUSPENDED = "suspended"
    REMOVING = "removing"
    REMOVED = "removed"


NOT_READY = frozenset({DomainState.PENDING, DomainState.VERIFYING})
READY = frozenset({DomainState.HEALTHY, DomainState.DEGRADED})
BROKEN = frozenset({DomainState.FAILING, DomainState.SUSPENDED})
GONE = frozenset({DomainState.REMOVING, DomainState.REMOVED})
