"""Nothing is written to an identity that is being deleted: to writes it is gone."""

import pytest

from mailboxes.models import Identity
from tests.support.api import ApiClient, code_of
from tests.support.calls import SENDING, body_of, calls, filled, route_of
from tests.support.lived_in import lived_in

pytestmark = pytest.mark.django_db

OPEN = {
    ("message-resolve", "POST"),
    ("message-cancel", "POST"),
    ("identity", "DELETE"),
}
"""A doubt is still settled, what waits is canceled, a repeated deletion is answered."""
WRITES = [
    call
    for call in calls()
    if call[1] != "GET" and "<str:identity_id>" in route_of(call[0])
]


@pytest.mark.parametrize("status", ["deleting", "deleted"])
@pytest.mark.parametrize("call", WRITES, ids=" ".join)
def test_a_write_below_a_deleted_identity_finds_nothing(
    platform_api: ApiClient, identity: Identity, call: tuple[str, str], status: str
) -> None:
    rows = lived_in(identity)
    Identity.objects.filter(id=identity.id).update(status=status, pause_reason=None)
    headers = {"Idempotency-Key": "key-1"} if call[0] in SENDING else {}

    answers = [
        platform_api._with_body(call[1], filled(call, rows), body, headers)
        for body in (body_of(call, rows), {"unknown": 1})
    ]

    if call in OPEN:
        assert answers[0].status_code == 200
    else:
        assert [code_of(answer) for answer in answers] == ["identity_not_found"] * 2
