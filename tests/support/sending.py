"""One sender as its client sees it: it posts, and remembers what it was answered."""

import re
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import httpx

from domains.relay import RelaySettings
from mailboxes.models import Message, Tenant
from mailboxes.statuses import TenantMode
from pylota.provisioning import Provisioned, RelayDomain, provision
from tests.support.database import database_url
from tests.support.invariants import (
    KEY_HEADER,
    Copies,
    assert_unbroken,
    books,
    unsettled,
)
from tests.support.processes import until
from tests.support.smtp_server import SmtpServer

RECIPIENT = "jo@example.net"
KEY_LINE = re.compile(rb"^x-test-key:\s*(\S+)", re.IGNORECASE | re.MULTILINE)

_names = count(1)
# made once, for its TLS context takes longer than a request; a connection for each
_http = httpx.Client(verify=False, limits=httpx.Limits(max_keepalive_connections=0))  # noqa: S501  plain HTTP


@dataclass
class Client:
    """Sends from one identity; ``accepted`` holds the message id of each key."""

    base_url: str
    account: Provisioned
    accepted: dict[str, str] = field(default_factory=dict)
    took: list[float] = field(default_factory=list)

    @property
    def path(self) -> str:
        """Return where this identity's messages are posted."""
        return f"/v1/identities/{self.account.identity_id}/messages"

    def post(
        self,
        key: str,
        *,
        to: Sequence[str] = (RECIPIENT,),
        base_url: str | None = None,
        seconds: float = 30.0,
        **body: Any,
    ) -> httpx.Response:
        """Post one send; note how long it took and what a 202 named."""
        given = {"to": list(to), "subject": f"About {key}", **body}
        return self._post((base_url or self.base_url) + self.path, key, given, seconds)

    def reply(self, key: str, message_id: str) -> httpx.Response:
        """Post a reply to a message of the mailbox, as ``post`` does a send."""
        return self._post(f"{self.base_url}{self.path}/{message_id}/reply", key, {}, 30)

    def _post(
        self, url: str, key: str, given: dict[str, Any], seconds: float
    ) -> httpx.Response:
        started = time.monotonic()
        answer = _http.post(
            url,
            timeout=seconds,
            headers={
                "Authorization": f"Bearer {self.account.api_key}",
                "Idempotency-Key": key,
            },
            json={
                "text": f"This is {key}.",
                "headers": {KEY_HEADER: key},
                **given,
            },
        )
        self.took.append(time.monotonic() - started)
        if answer.status_code == httpx.codes.ACCEPTED:
            named = answer.json()["id"]
            assert self.accepted.setdefault(key, named) == named
        return answer

    def accept(self, key: str, **given: Any) -> str:
        """Post one send that must be accepted; return its message's id."""
        answer = self.post(key, **given)
        assert answer.status_code == httpx.codes.ACCEPTED, answer.text
        return self.accepted[key]

    def accept_many(self, keys: Iterable[str], **given: Any) -> list[str]:
        """Post several sends, one after the other; return their messages' ids."""
        return [self.accept(key, **given) for key in keys]


def open_account(relay: SmtpServer, *, base_url: str, port: int = 0) -> Client:
    """Make a tenant with one identity whose domain submits to this relay.

    ``port`` is that of a proxy before the relay, if there is one.
    """
    n = next(_names)
    settings_of_relay = RelaySettings(
        host=relay.host,
        port=port or relay.port,
        username="relay-user",
        password="relay-secret",
        implicit_tls=relay.script.tls == "implicit",
        ca=relay.ca,
    )
    account = provision(
        tenant=f"fault-{n}",
        mode=TenantMode.LIVE,
        username="bookings",
        own_domain=RelayDomain(f"fault{n}.example", settings_of_relay),
    )
    return Client(base_url, account)


def open_test_account(*, base_url: str) -> Client:
    """Make a test tenant with one identity, whose mail goes to the simulator."""
    account = provision(
        tenant=f"fault-{next(_names)}",
        mode=TenantMode.TEST,
        username="bookings",
        own_domain=None,
    )
    return Client(base_url, account)


def colleague_of(client: Client) -> Client:
    """Make another identity of the same tenant, on the same domain."""
    tenant = Tenant.objects.get(id=client.account.tenant_id)
    account = provision(
        tenant=tenant.slug,
        mode=TenantMode.LIVE,
        username="colleague",
        own_domain=RelayDomain(client.account.address.partition("@")[2], None),
    )
    return Client(client.base_url, account)


def status_of(message_id: str) -> str:
    """Return the stored status of a message."""
    return Message.objects.values_list("status", flat=True).get(public_id=message_id)


def copies_at(*relays: SmtpServer) -> Copies:
    """Return what the relays took responsibility for, by key and recipient."""
    found: Counter[tuple[str, str]] = Counter()
    for relay in relays:
        with relay.changed:
            keys = {mail.message_id: key_of(mail.content) for mail in relay.mails}
            for (message_id, recipient), copies in relay.copies.items():
                found[keys[message_id], recipient] += copies
    return found


def key_of(content: bytes) -> str:
    """Return the key that a mail was sent under."""
    found = KEY_LINE.search(content)
    return found[1].decode() if found else "no key"


def settle(
    *clients: Client,
    relays: Sequence[SmtpServer],
    seconds: float = 20.0,
    url: str | None = None,
) -> Copies:
    """Wait until nothing is queued, then hold everything against the invariants.

    Returns the copies that came. ``url`` is the database's, if not the tests' own.
    """
    accepted = {key: id_ for client in clients for key, id_ in client.accepted.items()}
    tenants = [client.account.tenant_id for client in clients]
    with books(url or database_url(), tenants) as direct:
        until(
            lambda: unsettled(direct) == 0,
            seconds=seconds,
            what="an end of every accepted send",
        )
        copies = copies_at(*relays)
        assert_unbroken(direct, accepted, copies)
    return copies
