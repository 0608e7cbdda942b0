"""A provider's one account has one breaker, whichever domain's mail it carries."""

import socket
from collections.abc import Callable

import pytest
from pytest_django import Settings

from delivery.models import Attempt
from mailboxes.models import Alert, Message
from outbound.deliver import deliver
from outbound.models import Breaker
from tests.support.cloudflare import configured, queued, thread_of_cloudflare
from tests.support.cloudflare_server import CloudflareServer
from tests.support.queued import queued_for
from tests.support.ses_server import SesServer, refusing

pytestmark = pytest.mark.django_db


@pytest.fixture
def nobody_there() -> str:
    """The address of a host that refuses every connection."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{free.getsockname()[1]}"


def statuses(messages: list[Message]) -> list[str]:
    for message in messages:
        message.refresh_from_db()
    return [message.status for message in messages]


def test_r05_connections_refused_leave_three_in_doubt_and_the_rest_goes_out_later(
    ses: SesServer,
    settings: Settings,
    nobody_there: str,
    later: Callable[[float], None],
) -> None:
    # Given a provider that throttles once, then refuses connections
    throttled, *messages = [queued_for("ses") for _ in range(9)]
    ses.acts.append(refusing(429, "TooManyRequestsException"))
    deliver(throttled.public_id)
    there = settings.PM_SES_ENDPOINT_URL
    settings.PM_SES_ENDPOINT_URL = nobody_there

    # When eight domains' messages are rung
    for message in messages:
        deliver(message.public_id)

    # Then three are in doubt; the one before was not, and the others were not tried
    assert statuses([throttled]) == ["queued"]
    assert statuses(messages) == ["uncertain"] * 3 + ["queued"] * 5
    assert Attempt.objects.count() == 4
    assert Breaker.objects.get().scope == "account"
    assert Alert.objects.get().subject == "ses:account"

    # And when it is back, all of them go out, the probe first
    settings.PM_SES_ENDPOINT_URL = there
    later(331)
    for message in (throttled, *messages):
        deliver(message.public_id)
    assert statuses(messages) == ["uncertain"] * 3 + ["submitted"] * 5
    assert statuses([throttled]) == ["submitted"]
    assert len(ses.mails) == 6
    assert not Breaker.objects.exists()
    assert Alert.objects.get().resolved_at is not None


def test_three_errors_of_cloudflare_that_say_nothing_leave_the_other_domains_untried(
    later: Callable[[float], None],
) -> None:
    # Given a provider that takes each request and resets the connection
    messages = [queued(thread=thread_of_cloudflare()) for _ in range(6)]
    with CloudflareServer(*["reset_after"] * 3) as server, configured(server):
        for message in messages:
            deliver(message.public_id)

        # Then three domains' mail is in doubt, the provider saw three requests, and the
        # others were not tried
        assert statuses(messages) == ["uncertain"] * 3 + ["queued"] * 3
        assert len(server.sends) == server.connections == Attempt.objects.count() == 3
        assert Alert.objects.get().subject == "cloudflare:account"

        # And when it answers again they go out, once each
        later(331)
        for message in messages:
            deliver(message.public_id)
        assert statuses(messages) == ["uncertain"] * 3 + ["submitted"] * 3
        assert len(server.sends) == 6
    assert not Breaker.objects.exists()
    assert Alert.objects.get().resolved_at is not None
