"""Which transport makes a call: a table from the claim's provider to one way out."""

from collections.abc import Callable, Mapping
from typing import Final

from django.conf import settings

from mailboxes.statuses import Provider
from outbound.claims import Claim
from outbound.transports.base import MailTransport
from outbound.transports.loopback import LoopbackTransport
from outbound.transports.simulator import SimulatorTransport
from outbound.transports.smtp import SmtpTransport


def transport_for(claim: Claim) -> MailTransport:
    """Return the transport for a claim; raises KeyError for a provider without one."""
    return TRANSPORTS[Provider(claim.provider)]()


def smtp() -> SmtpTransport:
    """Return the relay transport, as this deployment's settings want it."""
    return SmtpTransport(
        ehlo_name=settings.PM_API_HOST,
        connect_seconds=settings.PM_SMTP_CONNECT_SECONDS,
        command_seconds=settings.PM_SMTP_COMMAND_SECONDS,
        final_seconds=settings.PM_SMTP_FINAL_SECONDS,
        allow_private=settings.LOCAL,
        ca_file=settings.PM_RELAY_CA_FILE or None,
        refused_hosts=(
            ()
            if settings.LOCAL
            else (settings.PM_API_HOST, settings.PM_PLATFORM_DOMAIN)
        ),
    )


def cloudflare() -> MailTransport:
    """Return the transport of the deployment's account; httpx is loaded by then."""
    from outbound.transports.cloudflare import CloudflareTransport

    return CloudflareTransport(
        account_id=settings.PM_CF_ACCOUNT_ID,
        token=settings.PM_CF_API_TOKEN,
        base=settings.PM_CF_API_BASE,
    )


def ses() -> MailTransport:
    """Return the SES transport; boto3 is loaded by the first process that needs it."""
    from outbound.transports.ses import SesTransport
    from outbound.transports.ses_client import SesAccount, client_of

    account = SesAccount(
        region=settings.PM_SES_REGION,
        access_key_id=settings.PM_SES_ACCESS_KEY_ID,
        secret_access_key=settings.PM_SES_SECRET_ACCESS_KEY,
        endpoint_url=settings.PM_SES_ENDPOINT_URL or None,
    )
    client_of(account)  # made before the call: what fails here is no doubt
    return SesTransport(
        account=account,
        configuration_set=settings.PM_SES_CONFIGURATION_SET or None,
    )


TRANSPORTS: Final[Mapping[Provider, Callable[[], MailTransport]]] = {
    Provider.CLOUDFLARE: cloudflare,
    Provider.SES: ses,
    Provider.SMTP: smtp,
    Provider.SIMULATOR: SimulatorTransport,
    Provider.LOOPBACK: LoopbackTransport,
}
