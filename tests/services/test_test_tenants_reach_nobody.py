"""A test tenant's mail reaches no provider, whatever its domain is set up for."""

from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from pytest_django import Settings

from delivery.models import Attempt
from domains.models import Domain
from domains.statuses import Transport
from mailboxes.statuses import Provider, TenantMode
from outbound.registry import TRANSPORTS
from outbound.transports.loopback import TEST_PROVIDERS
from tests.support.cloudflare import account_at
from tests.support.cloudflare_server import CloudflareServer
from tests.support.loops import Box, leave, new_box, work
from tests.support.queued import relay_settings
from tests.support.ses_server import KEY_ID, REGION, SECRET, SesServer, ses_server
from tests.support.smtp_server import SmtpServer

pytestmark = pytest.mark.django_db


class Providers:
    """A relay, an SES and a Cloudflare that count whoever comes."""

    def __init__(
        self, relay: SmtpServer, ses: SesServer, cloudflare: CloudflareServer
    ) -> None:
        """Take all three."""
        self.relay, self.ses, self.cloudflare = relay, ses, cloudflare

    def calls(self) -> int:
        """Return how many connections and requests there were."""
        requests = self.ses.requests + self.cloudflare.connections
        return len(self.relay.connections) + requests

    def serve(self, box: Box, transport: Transport) -> None:
        """Let a mailbox's domain use one of them."""
        Domain.objects.filter(addresses__address=box.address).update(
            transport=transport
        )


@pytest.fixture
def providers(settings: Settings) -> Iterator[Providers]:
    """Providers that this deployment is set up to use."""
    with ExitStack() as held:
        relay = held.enter_context(SmtpServer())
        ses = held.enter_context(ses_server())
        cloudflare = held.enter_context(CloudflareServer())
        for name, value in account_at(cloudflare).items():
            setattr(settings, name, value)
        settings.PM_SES_REGION = REGION
        settings.PM_SES_ACCESS_KEY_ID = KEY_ID
        settings.PM_SES_SECRET_ACCESS_KEY = SECRET
        settings.PM_SES_ENDPOINT_URL = ses.url
        yield Providers(relay, ses, cloudflare)


def box_on(providers: Providers, transport: Transport, mode: TenantMode) -> Box:
    box = new_box(mode=mode, relay=relay_settings(providers.relay))
    providers.serve(box, transport)
    return box


@pytest.mark.parametrize("transport", list(Transport))
def test_no_provider_hears_of_a_test_tenant(
    providers: Providers, transport: Transport
) -> None:
    box = box_on(providers, transport, TenantMode.TEST)
    other = new_box(box.identity.tenant)

    box.send(other, cc=["delivered@simulator.invalid"])
    box.send(other, key="key-2")
    box.send("softbounce@simulator.invalid", key="key-3")
    work()

    assert len(other.received()) == 2
    assert providers.calls() == 0
    called = set(Attempt.objects.values_list("provider", flat=True))
    assert called == {"simulator", "loopback"}


@pytest.mark.parametrize("transport", list(Transport))
def test_the_same_mail_of_a_live_tenant_is_counted(
    providers: Providers, transport: Transport
) -> None:
    box = box_on(providers, transport, TenantMode.LIVE)
    other = new_box(box.identity.tenant)

    box.send(other)
    leave()

    assert providers.calls() == 1
    assert other.received() == []  # it would come back as any other mail does


def test_what_carries_test_mail_has_no_client_of_any_kind() -> None:
    for provider in TEST_PROVIDERS:
        made = TRANSPORTS[Provider(provider)]()
        assert vars(made) == {}
