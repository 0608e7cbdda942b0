"""Twenty messages of one failing domain at once: each leaves once, by fallback."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from django.test import override_settings

from delivery.models import Attempt
from domains.models import Domain
from domains.statuses import DomainKind
from mailboxes.models import Message, Thread
from outbound.deliver import deliver
from tests.factories import AddressFactory, IdentityFactory, ThreadFactory
from tests.services.conftest import assert_units_add_up
from tests.support.fallback import platform_relay, queued, thread_with_fallback
from tests.support.racers import Racers
from tests.support.smtp_server import SmtpServer

pytestmark = pytest.mark.django_db(transaction=True)
MESSAGES = 20


@pytest.fixture
def many(transactional_db: None) -> Iterator[Racers]:
    """Twenty threads that start together."""
    threads = Racers(MESSAGES)
    yield threads
    threads.close()


def _threads() -> list[Thread]:
    """Return threads of one failing domain: half of one mailbox, half of others."""
    first = thread_with_fallback(platform="smtp")
    own = Domain.objects.get(kind=DomainKind.EXTERNAL)
    platform = Domain.objects.get(kind=DomainKind.PLATFORM)
    found = [first]
    for n in range(1, MESSAGES):
        identity = first.identity
        if n % 2:
            identity = IdentityFactory.create(tenant=first.tenant)
            AddressFactory.create(identity=identity, domain=own)
            AddressFactory.create(identity=identity, domain=platform, role="alias")
        found.append(ThreadFactory.create(identity=identity))
    return found


def test_twenty_messages_of_a_failing_domain_at_once_make_one_call_each(
    many: Racers, tmp_path: Path
) -> None:
    messages = [queued(thread, "jo@example.net") for thread in _threads()]

    with SmtpServer() as relay, override_settings(**platform_relay(relay, tmp_path)):
        for _ in range(20):  # who found no slot is rung again
            waiting = [m for m in messages if _is_queued(m)]
            if not waiting:
                break
            rung = [waiting[n % len(waiting)] for n in range(MESSAGES)]
            ends = many.at_once([partial(deliver, m.public_id) for m in rung])
            assert ends == [None] * MESSAGES

        wanted = {(f"<{m.rfc_message_id}>", "jo@example.net"): 1 for m in messages}
        assert dict(relay.copies) == wanted
    attempts = Attempt.objects.values_list("message_id", "from_address")
    assert len(attempts) == len(set(attempts)) == MESSAGES
    for message in messages:
        message.refresh_from_db()
        assert message.status == "submitted"
        assert message.flags == ["sent_via_fallback"]
        assert message.thread.fallback_pinned
        assert (message.pk, message.from_address) in set(attempts)
    assert_units_add_up(message)


def _is_queued(message: Message) -> bool:
    return Message.objects.filter(pk=message.pk, status="queued").exists()
