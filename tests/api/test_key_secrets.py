"""The secret of a key is shown once, and stored nowhere."""

import pytest
from django.db import connection

from mailboxes.models import ApiKey, Identity
from tests.support.api import ApiClient, code_of

pytestmark = pytest.mark.django_db(transaction=True)

WISH = {"name": "worker", "permissions": ["messages:send"]}


def everything_stored() -> str:
    """Return every row of every table, as text."""
    rows = []
    with connection.cursor() as cursor:
        for table in connection.introspection.table_names(cursor):
            cursor.execute(f'SELECT t::text FROM "{table}" AS t')  # noqa: S608
            rows += [row[0] for row in cursor.fetchall()]
    return "\n".join(rows)


def test_a_repeat_makes_no_second_key_and_shows_no_secret(api: ApiClient) -> None:
    """J19."""
    first = api.post("/v1/keys", WISH, key="k1")
    again = api.post("/v1/keys", WISH, key="k1")

    assert again.status_code == first.status_code == 201
    assert again.headers["Idempotent-Replayed"] == "true"
    shown = {k: v for k, v in first.json().items() if k != "secret"}
    assert again.json() == {**shown, "secret_replayed": False}
    assert ApiKey.objects.filter(name="worker").count() == 1


def test_a_repeat_turns_a_key_once(api: ApiClient) -> None:
    made = api.post("/v1/keys", WISH).json()
    path = f"/v1/keys/{made['id']}/rotate"

    turned = api.post(path, key="k1").json()
    again = api.post(path, key="k1").json()

    assert "secret" not in again
    assert again["secret_replayed"] is False
    for secret in (made["secret"], turned["secret"]):
        assert ApiClient(secret, "").get("/v1/me").status_code == 200


def test_another_keys_idempotency_key_replays_nothing(
    api: ApiClient, identity: Identity
) -> None:
    """J19: the place of an answer is the calling key's own."""
    other = ApiClient(
        api.post("/v1/keys", WISH | {"permissions": ["keys:manage"]}).json()["secret"],
        identity.id,
    )
    api.post("/v1/keys", WISH, key="k1")

    answer = other.post("/v1/keys", WISH, key="k1")

    assert code_of(answer) == "key_scope_exceeded"


def test_no_table_holds_a_secret(
    api: ApiClient, capsys: pytest.CaptureFixture[str]
) -> None:
    made = api.post("/v1/keys", WISH, key="k1").json()
    path = f"/v1/keys/{made['id']}/rotate"
    turned = api.post(path, {"overlap_hours": 1}, key="k2").json()
    assert ApiClient(turned["secret"], "").get("/v1/me").status_code == 200
    api.delete(f"/v1/keys/{made['id']}")

    stored = everything_stored()

    assert made["id"] in stored  # it was looked at
    said = "".join(capsys.readouterr())
    assert "v1/keys" in said
    for secret in (made["secret"], turned["secret"], api.secret):
        assert secret.rpartition("_")[2] not in stored
        assert secret.rpartition("_")[2] not in said
