"""Mail of a domain that must not send: from the platform's address, or not at all.

Every row of the page's "From address and fallback", from a claim to its record, with
servers that count what reaches them.
"""

import re
from collections.abc import Callable, Iterator
from email import message_from_bytes
from email.policy import default
from pathlib import Path
from typing import Any

import pytest

from delivery import reconcile
from delivery.events import DeliveryEvent
from delivery.models import Attempt, OutboundState
from delivery.statuses import DeliveryKind, EventSource
from domains.models import Domain
from domains.statuses import DomainKind, DomainState
from mailboxes.models import Alert, Event, Message, Tenant, Thread
from mailboxes.services import raise_alert
from mailboxes.statuses import MessageKind, MessageStatus, TenantMode
from outbound import claims
from outbound.alarms import sweep_claims
from outbound.deliver import deliver
from tests.services.conftest import assert_units_add_up, events_of, statuses
from tests.support.cloudflare import account_at, work
from tests.support.cloudflare_server import (
    CloudflareServer,
    error,
)
from tests.support.fallback import (
    fallback_address,
    platform_relay,
    queued,
    sent_copy,
    thread_with_fallback,
)
from tests.support.queued import move_to
from tests.support.ses_server import SesServer, refusing
from tests.support.smtp_script import Script
from tests.support.smtp_server import SmtpServer

pytestmark = pytest.mark.django_db
Later = Callable[[float], None]
A, B = "a@example.net", "b@example.net"
BROKEN = [DomainState.FAILING, DomainState.SUSPENDED]


@pytest.fixture
def relay(tmp_path: Path, settings: Any) -> Iterator[SmtpServer]:
    """The relay of the platform's domain."""
    with SmtpServer() as server:
        for name, value in platform_relay(server, tmp_path).items():
            setattr(settings, name, value)
        yield server


@pytest.fixture
def cloudflare(settings: Any) -> Iterator[CloudflareServer]:
    """The deployment's Cloudflare account."""
    with CloudflareServer() as server:
        for name, value in account_at(server).items():
            setattr(settings, name, value)
        yield server


def _sent_event(message: Message) -> dict[str, Any]:
    sent = Event.objects.get(type="message.sent", identity=message.identity)
    data: dict[str, Any] = sent.payload["data"]
    return data


def _without_sender(mime: bytes) -> bytes:
    return re.sub(rb"(?m)^(From|Reply-To):.*\r\n(?:[ \t].*\r\n)*", b"", mime)


def _shown(message: Message) -> bytes:
    address = fallback_address(message).address
    return f"From: Acme Bookings <{address}>\r\n".encode()


# --- by each transport of the platform -----------------------------------------------


@pytest.mark.parametrize("state", BROKEN)
def test_mail_of_a_broken_relay_domain_leaves_by_the_platforms_relay_instead(
    relay: SmtpServer, state: str
) -> None:
    with SmtpServer() as own:
        thread = thread_with_fallback(platform="smtp", state=state)
        Domain.objects.filter(kind=DomainKind.EXTERNAL).update(smtp_sealed=None)
        message = queued(thread, A)
        composed_id, stored = message.rfc_message_id, sent_copy(message)

        work(message)

        assert own.connections == []
    (mail,) = relay.mails
    address = fallback_address(message).address
    assert mail.sender == address
    # only the sender is another: all other octets, Message-ID included, are as composed
    assert _shown(message) in mail.content
    assert _without_sender(mail.content) == _without_sender(stored)
    assert mail.message_id == f"<{composed_id}>"
    assert sent_copy(message) == stored
    assert message.rfc_message_id == composed_id
    assert (message.status, message.provider) == (MessageStatus.SUBMITTED, "smtp")
    attempt = Attempt.objects.get()
    assert (attempt.from_address, attempt.rfc_message_id) == (address, composed_id)
    assert_units_add_up(message)


def test_a_message_sent_by_fallback_says_so_and_pins_its_thread(
    relay: SmtpServer,
) -> None:
    message = queued(thread_with_fallback(platform="smtp"), A)

    work(message)

    address = fallback_address(message).address
    local, domain = address.split("@")
    assert message.from_address == address
    assert message.flags == ["sent_via_fallback"]
    (answers_to,) = message.reply_to
    assert answers_to["name"] == message.from_name == "Acme Bookings"
    assert re.fullmatch(
        rf"{re.escape(local)}\+t[0-9a-z]+\.[0-9a-z]{{8}}@{domain}",
        answers_to["address"],
    )
    parsed = message_from_bytes(relay.mails[0].content, policy=default)
    assert parsed["Reply-To"].addresses[0].addr_spec == answers_to["address"]
    thread = Thread.objects.get()
    assert thread.fallback_pinned
    assert thread.reply_from_address is None  # a fallback send never changes it
    assert events_of(message) == ["message.sent"]
    said = _sent_event(message)
    assert said["sent_via_fallback"] is True
    assert (said["provider"], said["message"]["from"]["address"]) == ("smtp", address)


@pytest.mark.parametrize("own", ["smtp", "ses", "cloudflare"])
def test_whatever_the_own_transport_is_the_platforms_cloudflare_carries_it(
    cloudflare: CloudflareServer, ses: SesServer, own: str
) -> None:
    message = queued(thread_with_fallback(own, platform="cloudflare"), A)

    work(message)

    (seen,) = cloudflare.sends
    address = fallback_address(message).address
    assert seen.json["from"] == {"address": address, "name": "Acme Bookings"}
    assert seen.json["reply_to"] == message.reply_to[0]
    assert (message.status, message.provider) == (
        MessageStatus.SUBMITTED,
        "cloudflare",
    )
    assert ses.requests == 0


def test_the_platforms_ses_takes_the_rewritten_bytes(ses: SesServer) -> None:
    message = queued(thread_with_fallback(platform="ses"), A)

    work(message)

    (mail,) = ses.mails
    assert mail.sender == fallback_address(message).address
    assert _shown(message) in mail.content
    assert _without_sender(mail.content) == _without_sender(sent_copy(message))
    assert _sent_event(message)["provider"] == "ses"


# --- not at all ----------------------------------------------------------------------


@pytest.mark.parametrize("state", BROKEN)
def test_with_fallback_disabled_nothing_is_sent_and_the_message_fails(
    relay: SmtpServer, state: str
) -> None:
    message = queued(thread_with_fallback(platform="smtp", state=state), A)
    Tenant.objects.update(policy={"domain_fallback": False})

    work(message)

    assert (message.status, message.reason) == ("failed", "domain_failing_no_fallback")
    assert statuses(message) == {A: "failed"}
    assert events_of(message) == ["message.failed"]
    assert relay.connections == []
    assert not Attempt.objects.exists()
    assert_units_add_up(message)


@pytest.mark.parametrize("state", BROKEN)
@pytest.mark.parametrize("own", ["platform", "external"])
def test_a_broken_platform_domain_has_no_fallback_and_is_none(
    relay: SmtpServer, own: str, state: str
) -> None:
    message = queued(thread_with_fallback(platform="smtp"), A)
    if own == "platform":
        Message.objects.update(from_address=fallback_address(message).address)
    Domain.objects.update(state=state)

    work(message)

    assert (message.status, message.reason) == ("failed", "domain_failing_no_fallback")
    assert relay.connections == []
    assert not Thread.objects.get().fallback_pinned


@pytest.mark.parametrize("state", [DomainState.REMOVING, DomainState.REMOVED])
def test_a_removed_domain_rejects_and_does_not_fall_back(
    relay: SmtpServer, state: str
) -> None:
    message = queued(thread_with_fallback(platform="smtp", state=state), A)

    work(message)

    assert (message.status, message.reason) == (
        "rejected",
        "sender_domain_unavailable",
    )
    assert relay.connections == []


@pytest.mark.parametrize("state", [DomainState.PENDING, DomainState.VERIFYING])
def test_a_domain_that_is_checked_again_waits_and_does_not_fall_back(
    relay: SmtpServer, state: str, later: Later
) -> None:
    message = queued(thread_with_fallback(platform="smtp", state=state), A)

    work(message)

    assert message.status == MessageStatus.QUEUED
    assert not Attempt.objects.exists()
    assert relay.connections == []
    assert OutboundState.objects.get().backoff_n == 1
    later(24 * 3600)
    work(message)
    assert (message.status, message.reason) == ("failed", "quota_exhausted")


def test_marketing_does_not_leave_by_the_platforms_cloudflare(
    cloudflare: CloudflareServer,
) -> None:
    thread = thread_with_fallback("ses", platform="cloudflare")
    message = queued(thread, A, kind=MessageKind.MARKETING)

    work(message)

    assert (message.status, message.reason) == ("rejected", "marketing_needs_ses")
    assert cloudflare.connections == 0
    assert not Attempt.objects.exists()


def test_marketing_leaves_by_a_relay_of_the_platform(relay: SmtpServer) -> None:
    thread = thread_with_fallback("ses", platform="smtp")
    message = queued(thread, A, kind=MessageKind.MARKETING)

    work(message)

    assert message.status == MessageStatus.SUBMITTED
    assert len(relay.mails) == 1


def test_without_a_way_for_the_platform_the_message_waits() -> None:
    message = queued(thread_with_fallback(platform="cloudflare"), A)

    work(message)

    assert message.status == MessageStatus.QUEUED
    assert not Attempt.objects.exists()


def test_a_test_tenant_never_falls_back_to_a_real_transport(
    relay: SmtpServer, cloudflare: CloudflareServer, ses: SesServer
) -> None:
    to = "delivered@simulator.invalid"
    for platform in ("smtp", "cloudflare", "ses"):
        message = queued(thread_with_fallback(platform=platform), to)
        Domain.objects.filter(kind=DomainKind.PLATFORM).update(transport=platform)
        Tenant.objects.update(mode=TenantMode.TEST)

        work(message)

        assert (message.status, message.provider) == ("submitted", "simulator")
        assert message.from_address == fallback_address(message).address
    assert relay.connections == []
    assert cloudflare.connections == ses.requests == 0


# --- an SES account that is paused ---------------------------------------------------


@pytest.mark.parametrize(
    "code", ["SendingPausedException", "AccountSuspendedException"]
)
def test_mail_that_a_paused_ses_refused_leaves_by_fallback_after_its_back_off(
    relay: SmtpServer, ses: SesServer, later: Later, code: str
) -> None:
    thread = thread_with_fallback("ses", platform="smtp", state=DomainState.HEALTHY)
    refused, next_one = queued(thread, A), queued(thread, B)
    ses.acts.append(refusing(400, code))

    work(refused)

    # Then it waits, and mail that comes next does not ask SES at all
    assert refused.status == MessageStatus.QUEUED
    assert Alert.objects.get(name="ses_sending_paused").severity == "page"
    work(next_one)
    assert next_one.status == MessageStatus.SUBMITTED
    later(70)
    work(refused)
    assert refused.status == MessageStatus.SUBMITTED
    assert refused.flags == next_one.flags == ["sent_via_fallback"]
    assert ses.requests == 1
    assert len(relay.mails) == 2
    # and a quarter of an hour later the next message asks again
    later(15 * 60)
    asks = queued(thread, A)
    work(asks)
    assert (asks.provider, asks.flags) == ("ses", [])
    assert len(ses.mails) == 1


@pytest.mark.parametrize("end", ["resolved", "no fallback", "same account"])
def test_what_a_pause_of_ses_does_depends_on_alert_policy_and_platform(
    ses: SesServer, end: str
) -> None:
    platform = "ses" if end == "same account" else "smtp"
    thread = thread_with_fallback("ses", platform=platform, state=DomainState.HEALTHY)
    message = queued(thread, A)
    raise_alert("ses_sending_paused", subject="ses")
    if end == "resolved":  # an operator has mended it
        alert = Alert.objects.get()
        Alert.objects.update(resolved_at=alert.last_at)
    if end == "no fallback":
        Tenant.objects.update(policy={"domain_fallback": False})

    work(message)

    reason = "domain_failing_no_fallback" if end == "no fallback" else None
    status = {"resolved": "submitted", "no fallback": "failed"}.get(end, "queued")
    assert (message.status, message.reason) == (status, reason)
    assert ses.requests == (1 if end == "resolved" else 0)
    assert message.flags == []


# --- decided anew --------------------------------------------------------------------


def test_a_retry_decides_anew_and_comes_back_to_a_domain_that_is_well_again(
    relay: SmtpServer, later: Later
) -> None:
    with SmtpServer() as own:
        thread = thread_with_fallback(platform="smtp")
        message = queued(thread, A)
        composed = (message.from_address, message.reply_to)
        relay.follow(Script(always={"dot": "451 4.3.0 later"}))
        work(message)
        assert message.status == MessageStatus.QUEUED
        assert (message.from_address, message.reply_to) == composed

        Domain.objects.filter(kind=DomainKind.EXTERNAL).update(state="healthy")
        move_to(own, thread)
        later(70)
        work(message)

        (mail,) = own.mails
    assert mail.content == sent_copy(message)
    assert (message.from_address, message.reply_to) == composed
    assert message.flags == []
    assert _sent_event(message)["sent_via_fallback"] is False
    first, second = Attempt.objects.order_by("n")
    assert first.from_address == fallback_address(message).address
    assert second.from_address == composed[0]
    assert Thread.objects.get().fallback_pinned  # till it has been quiet for 72 hours


def test_a_deferred_rest_leaves_by_fallback_and_events_find_either_part(
    relay: SmtpServer, later: Later
) -> None:
    deferring = Script(always={"rcpt": {B: "451 4.2.0 later", "*": "250 ok"}})
    with SmtpServer(deferring) as own:
        thread = thread_with_fallback(platform="smtp", state=DomainState.HEALTHY)
        move_to(own, thread)
        message = queued(thread, A, B)
        work(message)
        assert statuses(message) == {A: "submitted", B: "queued"}

        Domain.objects.filter(kind=DomainKind.EXTERNAL).update(state="failing")
        later(70)
        work(message)

        assert [mail.recipients for mail in own.mails] == [[A]]
    assert [mail.recipients for mail in relay.mails] == [[B]]
    assert statuses(message) == {A: "submitted", B: "submitted"}
    assert message.flags == ["sent_via_fallback"]
    assert_units_add_up(message)
    first, second = Attempt.objects.order_by("n")
    assert first.from_address != second.from_address
    for attempt in (first, second):
        found = reconcile.find(message.identity_id, _bounce_of(attempt))
        assert found is not None
        assert found.message_id == message.public_id


def _bounce_of(attempt: Attempt) -> DeliveryEvent:
    return DeliveryEvent(
        source=EventSource.DSN,
        event_id=f"evt-{attempt.n}",
        provider_message_id=attempt.provider_message_id,
        sender=attempt.from_address,
        recipient=attempt.recipients[0],
        kind=DeliveryKind.BOUNCED,
        occurred_at=attempt.claimed_at,
    )


def test_a_fallback_in_doubt_is_never_sent_again_and_shows_its_sender(
    relay: SmtpServer, later: Later
) -> None:
    relay.follow(Script(always={"dot": "reset"}))
    message = queued(thread_with_fallback(platform="smtp"), A)

    work(message)
    later(24 * 3600)
    work(message)

    assert message.status == MessageStatus.UNCERTAIN
    assert message.from_address == fallback_address(message).address
    assert message.flags == ["sent_via_fallback"]
    assert len(relay.mails) == 1


def test_a_worker_lost_in_a_fallback_leaves_doubt_under_the_sender_it_used(
    relay: SmtpServer, later: Later
) -> None:
    message = queued(thread_with_fallback(platform="smtp"), A)
    assert claims.claim(message.public_id) is not None
    later(301)

    sweep_claims()

    message.refresh_from_db()
    assert message.status == MessageStatus.UNCERTAIN
    assert message.from_address == fallback_address(message).address


def test_what_blames_the_sender_of_a_fallback_is_noted_on_the_platforms_domain(
    relay: SmtpServer,
) -> None:
    relay.follow(Script(always={"auth": "535 5.7.8 no"}))
    message = queued(thread_with_fallback(platform="smtp"), A)

    work(message)

    assert message.reason == "sender_domain_unavailable"
    platform = Domain.objects.get(kind=DomainKind.PLATFORM)
    own = Domain.objects.get(kind=DomainKind.EXTERNAL)
    assert [issue["code"] for issue in platform.issues] == ["smtp_auth_failed"]
    assert own.issues == []


@pytest.mark.parametrize("dot", ["550 5.7.1 no", "451 4.3.0 later"])
def test_what_was_refused_for_good_or_for_a_day_was_not_sent_via_fallback(
    relay: SmtpServer, later: Later, dot: str
) -> None:
    relay.follow(Script(always={"dot": dot}))
    message = queued(thread_with_fallback(platform="smtp"), A)
    composed_from = message.from_address
    later(24 * 3600 - 10)

    work(message)

    assert message.status in (MessageStatus.REJECTED, MessageStatus.FAILED)
    assert (message.from_address, message.flags) == (composed_from, [])


def test_recipients_that_cloudflare_suppresses_are_set_aside_in_a_fallback_too(
    cloudflare: CloudflareServer,
) -> None:
    cloudflare.suppressed = {B: "hard_bounce"}
    message = queued(thread_with_fallback(platform="cloudflare"), A, B)

    work(message)

    assert statuses(message) == {A: "submitted", B: "suppressed"}
    address = fallback_address(message).address
    senders = set(Attempt.objects.values_list("from_address", flat=True))
    assert senders == {address}


def test_an_error_of_cloudflare_in_a_fallback_waits_and_falls_back_again(
    cloudflare: CloudflareServer, later: Later
) -> None:
    cloudflare.steps = [error(429, "slow down", "E_RATE_LIMIT_EXCEEDED")]
    message = queued(thread_with_fallback(platform="cloudflare"), A)

    deliver(message.public_id)
    later(12)
    work(message)

    assert message.status == MessageStatus.SUBMITTED
    assert [seen.json["from"]["address"] for seen in cloudflare.sends] == (
        [fallback_address(message).address] * 2
    )


def test_another_identity_of_the_tenant_on_a_healthy_domain_keeps_its_own_address(
    relay: SmtpServer,
) -> None:
    with SmtpServer() as own:
        failing = queued(thread_with_fallback(platform="smtp"), A)
        healthy = thread_with_fallback(platform="smtp", state=DomainState.HEALTHY)
        move_to(own, healthy)
        well = queued(healthy, A)

        work(failing)
        work(well)

        assert len(own.mails) == len(relay.mails) == 1
    assert well.flags == []


def test_an_identity_without_a_platform_address_cannot_fall_back(
    relay: SmtpServer,
) -> None:
    thread = thread_with_fallback(platform="smtp")
    message = queued(thread, A)
    fallback_address(message).delete()

    work(message)

    assert (message.status, message.reason) == ("failed", "domain_failing_no_fallback")
