"""Which transports this deployment can use, as its settings and a domain say."""

from django.conf import settings

from domains.statuses import Transport


def is_configured(transport: Transport, *, has_relay: bool) -> bool:
    """Tell whether mail may be handed to a transport; ``has_relay`` is the domain's."""
    configured = {
        Transport.CLOUDFLARE: bool(settings.PM_CF_ACCOUNT_ID),
        Transport.SES: bool(settings.PM_SES_REGION),
        Transport.SMTP: has_relay,
    }
    return configured[transport]
