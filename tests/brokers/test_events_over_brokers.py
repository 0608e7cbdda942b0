"""Provider events over a real broker: it and the worker go away, and none is lost."""

import pytest

from delivery.models import Delivery, ProviderEvent
from delivery.statuses import DeliveryKind
from tests.factories import AddressFactory
from tests.services.conftest import assert_units_add_up
from tests.support.brokers import Broker
from tests.support.doubts import doubts, stored, told, told_of
from tests.support.processes import Processes, until
from tests.support.tcp_proxy import TcpProxy
from tests.support.times import SHORT

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.brokers]

EVENTS = 300


def test_a_worker_and_a_broker_that_go_away_among_events_lose_and_double_none(
    broker: Broker, processes: Processes
) -> None:
    messages = doubts(AddressFactory.create().identity, EVENTS)
    rows = stored(*(told(one, DeliveryKind.DELIVERED) for one in messages))
    applied = ProviderEvent.objects.filter(state="applied")
    with TcpProxy(broker.address) as proxy:
        # Given a worker killed among the events, and a broker that forgets its queues
        reached = {**SHORT, "CELERY_BROKER_URL": broker.through(proxy.port).url}
        doomed = processes.worker(threads=2, **reached)
        until(lambda: applied.count() >= 5, what="the first events")
        doomed.kill()
        proxy.refuse()
        proxy.cut()
        broker.empty()
        assert 5 <= applied.count() < EVENTS

        # When both are back, the broker with the same task twice
        proxy.admit()
        app = broker.app()
        for row in rows * 2:
            app.send_task("delivery.apply_event", args=[row], queue="events")
        app.close()
        processes.worker(threads=4, **reached)

        # Then every event is applied, once
        until(lambda: applied.count() == EVENTS, seconds=60, what="all events")
    assert set(Delivery.objects.values_list("status", flat=True)) == {"delivered"}
    assert told_of("message.delivered") == told_of("message.reconciled") == EVENTS
    assert_units_add_up(messages[0])
