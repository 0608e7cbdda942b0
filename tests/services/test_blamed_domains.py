"""Outcomes that blame the sending domain: noted on it, and its check is due at once."""

from datetime import timedelta

import pytest

from core.clock import database_now
from domains.models import Domain
from outbound.deliver import deliver
from tests.services.conftest import events_of
from tests.support.queued import queue, thread_with_relay
from tests.support.smtp_script import Script
from tests.support.smtp_server import SmtpServer

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize(
    ("script", "issue"),
    [
        (Script(always={"auth": "535 5.7.8 no such login"}), "smtp_auth_failed"),
        (Script(tls="none"), "smtp_tls_required"),
    ],
)
def test_a_relay_that_refuses_login_or_tls_makes_the_domains_check_due(
    script: Script, issue: str
) -> None:
    with SmtpServer(script) as relay:
        thread = thread_with_relay(relay)
        Domain.objects.update(next_check_at=database_now() + timedelta(days=1))
        (message,) = queue(1, thread)

        for _ in range(2):
            deliver(message.public_id)

        assert len(relay.connections) == 1
        assert relay.mails == []
    message.refresh_from_db()
    assert (message.status, message.reason) == (
        "rejected",
        "sender_domain_unavailable",
    )
    assert events_of(message) == ["message.rejected"]
    domain = Domain.objects.get()
    assert [noted["code"] for noted in domain.issues] == [issue]
    assert domain.next_check_at <= database_now()
