"""Row 28: a claim's or a record's COMMIT is lost, and nothing is sent or told twice."""

import uuid
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from django.db import OperationalError, connection

from core.database import AWAY
from delivery.models import Attempt, OutboundState
from delivery.statuses import AttemptResult
from domains.models import Domain
from mailboxes.models import Alert, Message, Tenant
from mailboxes.statuses import MessageStatus, Operation
from outbound import claims
from outbound.models import LedgerEntry
from outbound.transports.base import Rejected, RejectReason, RetryClass, RetryLater
from tests.factories import (
    AddressFactory,
    QueuedMessageFactory,
    ThreadFactory,
    key_hash_of,
)
from tests.support.database import database_url
from tests.support.invariants import assert_unbroken, books
from tests.support.pg_proxy import Fault, PgProxy
from tests.support.scripted import ScriptedTransport, work

pytestmark = pytest.mark.django_db(transaction=True)

TRIALS = 20
CLAIM = r"insert into .?attempts"
RECORD = r"update .?attempts set finished_at"
DOMAINS = r"update .?domains"
ALERTS = r"insert into .?alerts"


@pytest.fixture
def proxy() -> Iterator[PgProxy]:
    """Let this thread's connection to the database go through a proxy."""
    direct = dict(connection.settings_dict)
    with PgProxy(database_url()) as proxy:
        connection.close()
        connection.settings_dict |= {"HOST": "127.0.0.1", "PORT": proxy.port}
        yield proxy
        proxy.forget_rules()
        connection.close()
        connection.settings_dict |= direct


@pytest.fixture
def scripted() -> ScriptedTransport:
    """A transport that takes everything, and counts."""
    return ScriptedTransport()


@pytest.fixture
def messages() -> list[Message]:
    """Return queued messages of one identity, each with its copy and its key."""
    thread = ThreadFactory.create(identity=AddressFactory.create().identity)
    made = QueuedMessageFactory.create_batch(TRIALS, thread=thread)
    for n, message in enumerate(made):
        LedgerEntry.objects.create(
            identity_id=message.identity_id,
            key_hash=key_hash_of(f"k-{n}"),
            tenant_id=message.tenant_id,
            fingerprint="f",
            operation=Operation.SEND,
            message_id=message.public_id,
            response={},
        )
    return made


def assert_settled(messages: list[Message], transport: ScriptedTransport) -> None:
    """Assert one call, one attempt and one of everything else for each message."""
    assert len(transport.calls) == Attempt.objects.count() == len(messages)
    assert set(Message.objects.values_list("status", flat=True)) == {"submitted"}
    accepted = {f"k-{n}": message.public_id for n, message in enumerate(messages)}
    copies = {(key, "jo@example.net"): 1 for key in accepted}
    tenants = list(Tenant.objects.values_list("id", flat=True))
    with books(database_url(), tenants) as connection_of_books:
        assert_unbroken(connection_of_books, accepted, copies)


def test_a_claim_whose_commit_took_effect_goes_on_to_its_one_call(
    messages: list[Message], proxy: PgProxy, scripted: ScriptedTransport
) -> None:
    for message in messages:
        rule = proxy.at_commit(Fault.CUT_AFTER, marker=CLAIM)
        assert work(message.public_id, scripted) is not None
        rule.wait()
    assert_settled(messages, scripted)


def test_a_claim_whose_commit_was_lost_makes_no_call_and_can_be_taken_again(
    messages: list[Message], proxy: PgProxy, scripted: ScriptedTransport
) -> None:
    for message in messages:
        rule = proxy.at_commit(Fault.CUT_BEFORE, marker=CLAIM)
        with pytest.raises(OperationalError):
            work(message.public_id, scripted)
        rule.wait()
        assert not OutboundState.objects.filter(claim_token__isnull=False).exists()
    assert scripted.calls == []

    for message in messages:
        work(message.public_id, scripted)
    assert_settled(messages, scripted)


@pytest.mark.parametrize("fault", [Fault.CUT_AFTER, Fault.CUT_BEFORE])
def test_a_record_whose_commit_was_lost_is_recorded_again_and_counts_once(
    messages: list[Message],
    proxy: PgProxy,
    scripted: ScriptedTransport,
    fault: Fault,
) -> None:
    for message in messages:
        rule = proxy.at_commit(fault, marker=RECORD)
        work(message.public_id, scripted)
        rule.wait()
    assert_settled(messages, scripted)


def test_a_claim_whose_database_stays_away_makes_no_call(
    messages: list[Message], proxy: PgProxy, scripted: ScriptedTransport
) -> None:
    # Given a COMMIT that took effect, and a database that cannot be asked about it
    rule = proxy.at_commit(Fault.CUT_AFTER, marker=CLAIM)
    connection.ensure_connection()
    proxy.refuse()
    with pytest.raises(OperationalError):
        work(messages[0].public_id, scripted)
    rule.wait()
    proxy.admit()

    # Then nobody called, and the claim stands until the alarm ends it
    assert scripted.calls == []
    state = OutboundState.objects.get(message=messages[0])
    assert isinstance(state.claim_token, uuid.UUID)
    assert claims.claim(messages[0].public_id) is None
    assert Attempt.objects.get().result not in AttemptResult.values
    assert Message.objects.get(pk=messages[0].key).status == MessageStatus.QUEUED


@pytest.mark.parametrize("fault", [Fault.CUT_AFTER, Fault.CUT_BEFORE])
def test_what_a_call_says_of_domain_and_provider_survives_a_lost_commit(
    messages: list[Message],
    proxy: PgProxy,
    scripted: ScriptedTransport,
    fault: Fault,
) -> None:
    # Given two refusals that are recorded: one blames the domain, one alerts
    blames = Rejected(
        RejectReason.SENDER_DOMAIN_UNAVAILABLE, "535", "no", issue="smtp_auth_failed"
    )
    alerts = RetryLater(RetryClass.QUOTA, "quota", alert="provider_quota")
    scripted.answers = [blames, alerts]

    # When the COMMIT that tells of each is lost
    for message, marker in zip(messages, (DOMAINS, ALERTS), strict=False):
        rule = proxy.at_commit(fault, marker=marker)
        work(message.public_id, scripted)
        rule.wait()

    # Then it is told all the same, once
    [issue] = Domain.objects.get().issues
    assert issue["code"] == "smtp_auth_failed"
    assert Alert.objects.get().name == "provider_quota"


class Ending:
    """Ends this connection's backend just before its n-th statement from now on."""

    def __init__(self, n: int) -> None:
        self.left = n

    @property
    def has_struck(self) -> bool:
        """Tell whether there was an n-th statement."""
        return self.left <= 0

    def __call__(self, execute: Any, *args: Any) -> Any:
        self.left -= 1
        if self.left == 0:
            pid = connection.connection.info.backend_pid
            with psycopg.connect(database_url(), autocommit=True) as another:
                another.execute("SELECT pg_terminate_backend(%s, 5000)", [pid])
        return execute(*args)


def test_a_record_that_loses_its_session_at_any_statement_is_recorded_once(
    messages: list[Message], scripted: ScriptedTransport
) -> None:
    struck = []
    for n, message in enumerate(messages, start=1):
        claim = claims.claim(message.public_id)
        assert claim is not None
        result = scripted.send(claim.outgoing)
        with connection.execute_wrapper(ending := Ending(n)):
            claims.record(claim, result)
        struck.append(ending.has_struck)

    # Then each statement has had its turn, and no message is told of twice
    assert struck[0]
    assert not struck[-1]
    assert_settled(messages, scripted)


def test_a_claim_that_loses_its_session_at_any_statement_makes_no_call(
    messages: list[Message], scripted: ScriptedTransport
) -> None:
    struck = []
    for n, message in enumerate(messages, start=1):
        with connection.execute_wrapper(ending := Ending(n)):
            try:
                claim = claims.claim(message.public_id)
            except AWAY:
                connection.close()
                assert not Attempt.objects.filter(message=message).exists()
                claim = claims.claim(message.public_id)
        struck.append(ending.has_struck)
        assert claim is not None
        claims.record(claim, scripted.send(claim.outgoing))

    assert struck[0]
    assert not struck[-1]
    assert_settled(messages, scripted)
