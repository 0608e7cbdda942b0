"""The API goes on while the broker is away; what it accepted is sent afterwards."""

from collections.abc import Callable
from statistics import quantiles

import pytest

from mailboxes.models import Message
from tests.support.brokers import Broker
from tests.support.processes import Processes
from tests.support.sending import open_account, settle
from tests.support.smtp_server import SmtpServer
from tests.support.tcp_proxy import TcpProxy
from tests.support.times import SHORT

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.brokers]

SENDS = 100


def stop(proxy: TcpProxy) -> None:
    """Let the broker be gone: nothing listens, and what was open is cut."""
    proxy.refuse()
    proxy.cut()


@pytest.mark.parametrize(
    ("how", "back"),
    [
        pytest.param(stop, TcpProxy.admit, id="stopped"),
        pytest.param(TcpProxy.freeze, TcpProxy.thaw, id="never answers"),
    ],
)
def test_sends_are_accepted_fast_without_a_broker_and_leave_when_it_is_back(
    rabbitmq: Broker,
    processes: Processes,
    relay: SmtpServer,
    how: Callable[[TcpProxy], None],
    back: Callable[[TcpProxy], None],
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Rows 5 and 41, must hold 5: 100 accepted, p95 below 1 s, all sent, once."""
    with TcpProxy(rabbitmq.address) as proxy:
        # Given web and worker that reach their broker, which then goes away
        broker = rabbitmq.through(proxy.port).url
        web = processes.web(CELERY_BROKER_URL=broker)
        processes.worker(CELERY_BROKER_URL=broker, **SHORT)
        sender = open_account(relay, base_url=web.url)
        sender.accept("before")
        settle(sender, relays=[relay])
        how(proxy)

        # When a hundred are sent
        sender.took.clear()
        sender.accept_many(f"without-broker-{n}" for n in range(SENDS))
        p95 = quantiles(sender.took, n=20)[-1]
        with capsys.disabled():
            print(f"\nbroker away: p95 of a submit {p95 * 1000:.0f} ms")  # noqa: T201
        assert p95 < 1

        # Then all of them leave once it is back
        back(proxy)
        copies = settle(sender, relays=[relay], seconds=60)
        assert sum(copies.values()) == SENDS + 1
        assert set(Message.objects.values_list("status", flat=True)) == {"submitted"}
        processes.end_all()
