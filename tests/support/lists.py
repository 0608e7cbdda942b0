"""Every list of the API, and how it grows: for the tests that try all of them."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from mailboxes.key_services import create_key
from mailboxes.models import Identity, Label, Message, Thread
from mailboxes.services import audit
from pylota.api.views import describe
from tests.factories import (
    AddressFactory,
    QueuedMessageFactory,
    TenantFactory,
    ThreadFactory,
)
from tests.support.answering import counted, received, with_file
from tests.support.calls import calls, filled, route_of
from tests.support.lived_in import alias, called, hooked, listed, suppressed, tried
from tests.support.outbox import happen
from webhooks import outbox
from webhooks.models import WebhookEndpoint


def lists() -> list[str]:
    """Return the routes whose answer to GET has a ``next_cursor``."""
    shapes = describe()["components"]["schemas"]
    return [
        name
        for name, _ in calls(["GET"])
        if "next_cursor" in shapes[_shape_of(name)].get("properties", {})
    ]


def path_of(name: str, rows: Mapping[str, str]) -> str:
    """Return the path of a list."""
    return filled((name, "GET"), rows)


def shown(page: Mapping[str, Any]) -> list[Any]:
    """Return the rows of a page."""
    found: list[Any] = page["messages"] if "messages" in page else page["data"]
    return found


def limit_of(name: str) -> str:
    """Return the parameter that says how many rows a page has."""
    return "messages_limit" if name == "thread" else "limit"


def _shape_of(name: str) -> str:
    path = route_of(name).replace("<str:", "{").replace("<path:", "{")
    answer = describe()["paths"][path.replace(">", "}")]["get"]["responses"]["200"]
    schema = answer["content"].get("application/json", {}).get("schema", {})
    return str(schema.get("$ref", "#/Health")).rpartition("/")[2]


def _grow_mail(identity: Identity, thread: Thread) -> None:
    sent: Message = QueuedMessageFactory.create(thread=thread)
    with_file(sent)
    for message in (sent, received(identity, thread)):
        Label.objects.create(message=message, tenant=message.tenant, label="a")
    counted(thread)


def _message_of(rows: Mapping[str, str]) -> Message:
    return Message.objects.get(public_id=rows["message_id"])


GROW: Final[Mapping[str, Callable[[Identity, Mapping[str, str], int], object]]] = {
    "tenants": lambda i, rows, n: TenantFactory.create(),
    "keys": lambda i, rows, n: create_key(name=f"k{n}", identity=i),
    "audit-events": lambda i, rows, n: audit(f"try.{n}", tenant_id=i.tenant_id),
    "identities": lambda i, rows, n: AddressFactory.create(identity__tenant=i.tenant),
    "tenant-identities": lambda i, rows, n: AddressFactory.create(
        identity__tenant=i.tenant
    ),
    "suppressions": lambda i, rows, n: suppressed(i.tenant_id, f"u{n}@example.net"),
    "list": lambda i, rows, n: listed(i.tenant_id, f"u{n}@example.net"),
    "addresses": lambda i, rows, n: alias(i),
    "messages": lambda i, rows, n: _grow_mail(i, _message_of(rows).thread),
    "thread": lambda i, rows, n: _grow_mail(i, _message_of(rows).thread),
    "threads": lambda i, rows, n: _grow_mail(
        i, ThreadFactory.create(identity=i, seq=6000 + n)
    ),
    "webhooks": lambda i, rows, n: hooked(i.tenant_id),
    "tenant-webhooks": lambda i, rows, n: hooked(i.tenant_id),
    "webhook-deliveries": lambda i, rows, n: called(
        WebhookEndpoint.objects.get(id=rows["webhook_id"])
    ),
    "events": lambda i, rows, n: (happen(i), outbox.number_all()),
    "message-attempts": lambda i, rows, n: tried(_message_of(rows)),
}
"""How each list gets one row more, the ``n``-th."""
