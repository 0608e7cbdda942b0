"""Several people settle one uncertain send at once: the first answer counts."""

from functools import partial
from typing import Any

from delivery.models import Delivery
from mailboxes.key_services import create_key
from mailboxes.models import AuditRow, Event, Message
from outbound.transports.base import UncertainReason, Unknown
from tests.factories import QueuedMessageFactory
from tests.support.api import ApiClient
from tests.support.racers import Racers
from tests.support.scripted import ScriptedTransport, work

ROUNDS = 5


def answer(api: ApiClient, message: Message, outcome: str, key: str | None) -> Any:
    path = f"{api.path}/{message.public_id}/resolve"
    return api.post(path, {"outcome": outcome}, key=key)


def test_one_of_eight_answers_settles_a_doubt(racers: Racers) -> None:
    for _ in range(ROUNDS):
        message: Message = QueuedMessageFactory.create()
        silence = ScriptedTransport([Unknown(UncertainReason.TIMEOUT, "silence")])
        work(message.public_id, silence)
        secret = create_key(name="t", tenant=message.tenant).secret
        api = ApiClient(secret, message.identity_id)

        given: list[Any] = racers.at_once(
            [
                partial(answer, api, message, outcome, key)
                for key in (None, "k1", "k2", "k3")
                for outcome in ("sent", "not_sent")
            ]
        )

        assert sorted(response.status_code for response in given) == [200] + [409] * 7
        told = next(r.json() for r in given if r.status_code == 200)
        message.refresh_from_db()
        assert told["status"] == message.status in {"submitted", "failed"}
        stored = Delivery.objects.filter(message=message).values_list("status")
        assert {status for (status,) in stored} == {message.status}
        rows = AuditRow.objects.filter(target_id=message.public_id)
        assert rows.filter(action="message.resolve").count() == 1
        assert Event.objects.filter(identity=message.identity).count() == 2
