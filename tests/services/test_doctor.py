"""The doctor: each part green, each part red, and none that hangs the others."""

import json
from collections.abc import Callable, Iterator
from datetime import timedelta
from io import StringIO
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from django.db.migrations.recorder import MigrationRecorder
from pytest_django import Settings

from core import clock
from core.clock import database_now
from delivery import feedback, inbox
from delivery.events import DeliveryEvent
from delivery.models import OutboundState, ProviderEvent
from delivery.statuses import DeliveryKind, EventSource
from domains.models import Domain
from mailboxes.keyring_services import rotate_key
from mailboxes.models import Address, SigningKey
from mailboxes.services import raise_alert
from mailboxes.statuses import KeyPurpose, Provider, Severity
from outbound import claims, dispatch
from outbound.models import Breaker
from outbound.transports.base import UncertainReason, Unknown
from pylota.doctor import database, examination, surroundings, work
from pylota.doctor.examination import PARTS, examine
from pylota.doctor.findings import Found, Health, number_of
from pylota.watch.conditions import CONDITIONS
from tests.factories import (
    AddressFactory,
    DomainFactory,
    IdentityFactory,
    QueuedMessageFactory,
)
from tests.services.test_feedback import sends
from tests.support.outbox import happen
from tests.support.processes import free_port
from tests.support.scripted import ScriptedTransport
from tests.support.scripted import work as work_on
from tests.support.tcp_proxy import TcpProxy
from tests.support.webhook_rows import endpoint_at
from webhooks import outbox
from webhooks.models import WebhookEndpoint

pytestmark = pytest.mark.django_db
Ill = Callable[[], object]


def later(**age: float) -> None:
    clock.offset += timedelta(**age)


def by_name(*names: str) -> tuple[examination.Part, ...]:
    return tuple(part for part in PARTS if part.name in names)


def asked(title: str) -> Callable[[], Found]:
    """Return the look of a condition's line."""
    (one,) = by_name(title)
    return one.look


def assert_red(found: Found, *words: str) -> None:
    assert found.health == Health.FAIL
    assert found.next
    assert "\n" not in found.detail + found.next
    for word in words:
        assert word in found.detail


# --- what is under way ---------------------------------------------------------------


def one_in_doubt() -> None:
    transport = ScriptedTransport([Unknown(UncertainReason.TIMEOUT, "silence")])
    work_on(QueuedMessageFactory.create().public_id, transport)
    outbox.number_all()
    later(minutes=38, seconds=30)


def one_left_lying() -> None:
    QueuedMessageFactory.create()
    later(seconds=61)


def one_rung_for_nothing() -> None:
    """The bell rings, so its row is due later, but no worker comes."""
    QueuedMessageFactory.create()
    for _ in range(3):
        later(seconds=301)
        dispatch.take_due(dispatch.MESSAGES)


def one_past_its_back_off() -> None:
    QueuedMessageFactory.create()
    due = database_now() - timedelta(seconds=61)
    OutboundState.objects.update(retry_at=due, dispatch_at=due)


def one_claimed_and_forgotten() -> None:
    assert claims.claim(QueuedMessageFactory.create().public_id) is not None
    later(seconds=361)


def an_event(sender: str = "x@mail.example", *, n: int = 0) -> None:
    told = DeliveryEvent(
        source=EventSource.SES,
        event_id=f"ses:{n}",
        provider_message_id="p",
        sender=sender,
        recipient="jo@example.net",
        kind=DeliveryKind.DELIVERED,
        occurred_at=database_now(),
    )
    inbox.store([told], due_at=[database_now()])


def an_event_left_lying() -> None:
    an_event()
    later(seconds=61)


def a_hold_left_lying() -> None:
    QueuedMessageFactory.create()  # its hold is for ten minutes
    OutboundState.objects.update(dispatch_at=database_now() + timedelta(hours=1))
    later(minutes=12)


def something_untold() -> None:
    happen(IdentityFactory.create())
    later(seconds=61)


def eleven_orphans() -> None:
    for n in range(11):
        an_event(n=n)
    ProviderEvent.objects.update(state="orphaned", due_at=None)


def an_open_breaker() -> None:
    Breaker.objects.create(
        provider=Provider.SES,
        scope="account",
        unknowns=3,
        openings=1,
        probe_at=database_now(),
    )


def silence() -> None:
    address = AddressFactory.create()
    Domain.objects.filter(id=address.domain_id).update(transport="ses")
    sends(address, feedback.SENT)


def a_page() -> None:
    raise_alert("provider_quota", subject="ses", severity=Severity.PAGE)
    raise_alert("abuse_pause", subject="idn_1")


@pytest.mark.parametrize(
    ("look", "make_ill", "words"),
    [
        (work.uncertain, one_in_doubt, ["1 send in doubt", "for 38 min"]),
        (work.queue, one_left_lying, ["1 message could have left", "1 min"]),
        (work.queue, one_rung_for_nothing, ["1 message", "15 min"]),
        (work.queue, one_past_its_back_off, ["1 message", "1 min"]),
        (asked("claims"), one_claimed_and_forgotten, ["not ended: 1", "6 min ago"]),
        (asked("due rows"), one_left_lying, ["1 of outbound_state", "for 1 min"]),
        (asked("due rows"), an_event_left_lying, ["1 of provider_events", "1 min"]),
        (asked("holds"), a_hold_left_lying, ["not given back: 1", "2 min ago"]),
        (asked("outbox"), something_untold, ["no event", "1 min"]),
        (asked("orphaned events"), eleven_orphans, ["11 events of the last hour"]),
        (asked("breakers"), an_open_breaker, ["1 open", "ses:account"]),
        (asked("feedback"), silence, ["no event ever came for mail"]),
        (work.alerts, a_page, ["1 alert of severity page: provider_quota; 1 ticket"]),
    ],
)
def test_what_waits_for_somebody_fails_and_says_so(
    monkeypatch: pytest.MonkeyPatch,
    look: Callable[[], Found],
    make_ill: Ill,
    words: list[str],
) -> None:
    monkeypatch.setattr(feedback, "SENT", 3)
    assert look().health == Health.OK

    make_ill()

    assert_red(look(), *words)


def test_the_doctor_has_a_line_for_each_condition_that_raises_an_alert() -> None:
    titles = [condition.title for condition in CONDITIONS]

    assert [part.name for part in PARTS if part.name in titles] == titles


def one_being_sent() -> None:
    assert claims.claim(QueuedMessageFactory.create().public_id) is not None
    later(seconds=300)


def one_in_back_off() -> None:
    QueuedMessageFactory.create()
    due = database_now() + timedelta(hours=1)
    OutboundState.objects.update(retry_at=due, dispatch_at=due)
    later(minutes=9)


def ten_orphans_and_old_ones() -> None:
    eleven_orphans()
    later(minutes=61)
    for n in range(11, 21):
        an_event(n=n)
    ProviderEvent.objects.update(state="orphaned", due_at=None)


def a_long_queue() -> None:
    """As many are rung as may be; the rest is due and has to wait."""
    QueuedMessageFactory.create_batch(3)
    later(seconds=30)
    dispatch.take_due(dispatch.MESSAGES)
    later(seconds=61)


def an_old_page() -> None:
    a_page()
    with connection.cursor() as cursor:
        cursor.execute("UPDATE alerts SET resolved_at = now() WHERE severity = 'page'")


@pytest.mark.parametrize(
    ("look", "go_on"),
    [
        (asked("claims"), one_being_sent),
        (work.queue, one_being_sent),
        (work.queue, one_in_back_off),
        (asked("due rows"), one_in_back_off),
        (asked("due rows"), a_long_queue),
        (asked("orphaned events"), ten_orphans_and_old_ones),
        (work.alerts, an_old_page),
    ],
)
def test_what_is_on_its_way_is_well(
    settings: Settings, look: Callable[[], Found], go_on: Ill
) -> None:
    settings.PM_RING_AHEAD = 1

    go_on()

    assert look().health == Health.OK


# --- what it stands on ---------------------------------------------------------------


def test_more_workers_than_memory_can_serve_fail(settings: Settings) -> None:
    assert surroundings.configuration().health == Health.OK

    settings.PM_WORKERS = 2

    found = surroundings.configuration()
    assert_red(found, "PM_WORKERS is 2")
    assert found.next == "Set CELERY_BROKER_URL to a broker, or PM_WORKERS to 1"


def test_the_database_tells_its_version() -> None:
    found = database.server()

    assert found.health == Health.OK
    assert found.detail.startswith("PostgreSQL ")


@pytest.mark.parametrize(
    "override",
    [
        "synchronous_commit=off",
        "lock_timeout=0",
        "idle_in_transaction_session_timeout=0",
        "statement_timeout=0",
        "default_transaction_isolation=serializable",
    ],
)
def test_each_setting_of_the_session_that_is_overridden_fails(
    monkeypatch: pytest.MonkeyPatch, override: str
) -> None:
    parts = by_name("database session")
    (before,) = examine(parts)
    options = connection.settings_dict["OPTIONS"]

    monkeypatch.setitem(options, "options", f"{options['options']} -c {override}")

    (after,) = examine(parts)
    assert before.found.health == Health.OK
    assert_red(after.found, override.partition("=")[0].removeprefix("default_"))


def test_a_migration_that_is_due_fails_by_name() -> None:
    assert database.migrations().health == Health.OK
    last = last_migration_of("quota")

    MigrationRecorder(connection).record_unapplied("quota", last)

    assert_red(database.migrations(), "1 migration is due", f"quota.{last}")


def last_migration_of(app: str) -> str:
    """Return the name of an app's last migration."""
    applied = MigrationRecorder(connection).applied_migrations()
    return max(name for label, name in applied if label == app)


def test_a_relay_sealed_with_another_key_fails(address: Address) -> None:
    assert database.credentials().health == Health.OK

    broken = DomainFactory.create()
    Domain.objects.filter(id=broken.id).update(
        smtp_sealed=Domain.objects.get(id=address.domain_id).smtp_sealed
    )

    assert_red(database.credentials(), "1 domain", broken.id)


def test_a_secret_of_a_webhook_sealed_with_another_key_fails() -> None:
    good = endpoint_at("https://hooks.example.com/")
    assert database.credentials().detail.endswith("and 1 webhook readable")

    broken = endpoint_at("https://hooks.example.com/")
    WebhookEndpoint.objects.filter(id=broken.id).update(secret_enc=good.secret_enc)

    assert_red(database.credentials(), "1 webhook", broken.id)


def test_who_may_be_called_in_the_local_environment_is_said(
    settings: Settings,
) -> None:
    assert "may lead to private hosts" in surroundings.configuration().detail

    settings.LOCAL = False

    assert "private" not in surroundings.configuration().detail


def test_signing_keys_sealed_with_another_key_fail(settings: Settings) -> None:
    rotate_key(KeyPurpose.THREAD)
    known = SigningKey.objects.count()  # the first of all stay, whoever made them
    assert database.credentials().detail.startswith(number_of(known, "signing key"))

    settings.PM_MASTER_KEY = bytes(range(32))

    assert_red(database.credentials(), "sign tokens")


def test_a_store_that_cannot_be_written_fails(
    tmp_path: Path, settings: Settings
) -> None:
    assert surroundings.object_store().health == Health.OK
    (tmp_path / "objects").write_text("a file where the folder should be")
    settings.STORAGES = {
        **settings.STORAGES,
        "objects": {
            "BACKEND": "core.objects.DurableFileStorage",
            "OPTIONS": {"location": str(tmp_path / "objects" / "of" / "mail")},
        },
    }

    assert_red(surroundings.object_store(), "the object store failed", "no send")


def test_a_store_that_is_well_is_left_as_it_was(
    tmp_path: Path, settings: Settings
) -> None:
    settings.STORAGES = {
        **settings.STORAGES,
        "objects": {
            "BACKEND": "core.objects.DurableFileStorage",
            "OPTIONS": {"location": str(tmp_path / "objects")},
        },
    }

    assert surroundings.object_store().health == Health.OK
    assert list((tmp_path / "objects").iterdir()) == []


@pytest.mark.parametrize("transport", ["ses", "cloudflare"])
def test_a_provider_that_nobody_needs_is_not_used_and_one_that_is_missed_fails(
    address: Address, settings: Settings, transport: str
) -> None:
    look = getattr(surroundings, transport)
    assert look().health == Health.UNUSED

    Domain.objects.update(transport=transport)
    assert_red(look(), "1 domain")

    Domain.objects.update(state="removed")
    assert look().health == Health.UNUSED

    settings.PM_PLATFORM_TRANSPORT = transport
    assert_red(look(), "the platform's domain")


def test_providers_that_are_set_up_are_well(settings: Settings) -> None:
    settings.PM_CF_ACCOUNT_ID = "account"
    settings.PM_CF_QUEUE_ID = "queue"
    settings.PM_SES_REGION = "eu-west-1"
    settings.PM_SES_CONFIGURATION_SET = "pylota-mail"
    settings.PM_SES_SNS_TOPIC_ARN = "arn:aws:sns:eu-west-1:1:mail"

    assert surroundings.cloudflare().detail == "account account"
    assert surroundings.ses().detail == "eu-west-1, pylota-mail"


@pytest.mark.parametrize(
    ("transport", "given", "missing"),
    [
        ("ses", {"PM_SES_REGION": "eu-west-1"}, "PM_SES_CONFIGURATION_SET"),
        ("ses", {"PM_SES_REGION": "eu-west-1"}, "PM_SES_SNS_TOPIC_ARN"),
        ("cloudflare", {"PM_CF_ACCOUNT_ID": "account"}, "PM_CF_QUEUE_ID"),
    ],
)
def test_a_provider_without_a_way_back_for_its_events_fails(
    settings: Settings, transport: str, given: dict[str, str], missing: str
) -> None:
    ways_back = ("PM_SES_CONFIGURATION_SET", "PM_SES_SNS_TOPIC_ARN", "PM_CF_QUEUE_ID")
    for name, value in {**dict.fromkeys(ways_back, "x"), **given, missing: ""}.items():
        setattr(settings, name, value)

    found = getattr(surroundings, transport)()

    assert_red(found, "does not come back")
    assert found.next == f"set {missing}"


# --- a broker that is away, or worse -------------------------------------------------


@pytest.fixture
def _hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a look end after a second."""
    monkeypatch.setattr(examination, "SECONDS", 1.0)


def test_a_broker_in_memory_is_well() -> None:
    assert surroundings.broker().health == Health.OK


@pytest.mark.parametrize("scheme", ["amqp", "redis"])
def test_a_port_that_nobody_listens_on_fails(settings: Settings, scheme: str) -> None:
    port = free_port()
    settings.CELERY_BROKER_URL = f"{scheme}://user:hush@127.0.0.1:{port}//"

    found = surroundings.broker()

    assert_red(found, f"127.0.0.1:{port} ")
    assert "hush" not in str(found)


@pytest.fixture
def mute() -> Iterator[TcpProxy]:
    """A server that accepts and never answers."""
    with TcpProxy(("127.0.0.1", free_port())) as proxy:
        proxy.freeze()
        yield proxy


@pytest.mark.usefixtures("_hurried")
@pytest.mark.parametrize("scheme", ["amqp", "redis"])
def test_a_broker_that_accepts_and_never_answers_fails_in_time(
    settings: Settings, mute: TcpProxy, scheme: str
) -> None:
    settings.CELERY_BROKER_URL = f"{scheme}://user:hush@127.0.0.1:{mute.port}//"

    broker, store = examine(by_name("broker", "object store"))

    assert_red(broker.found)
    assert "hush" not in broker.line()
    assert store.found.health == Health.OK


# --- a database that is away, or worse -----------------------------------------------


def test_without_a_database_the_rest_is_looked_at_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(connection.settings_dict, "PORT", free_port())

    found = {finding.name: finding.found for finding in examine()}

    assert_red(found["database"], "connection")
    healths = {name: found[name].health for name in found if name != "database"}
    in_database = {part.name for part in PARTS if part.in_database}
    assert healths == {
        part.name: Health.UNKNOWN if part.name in in_database else Health.OK
        for part in PARTS
        if part.name != "database"
    }


def test_a_database_that_accepts_and_never_answers_is_waited_for_once(
    monkeypatch: pytest.MonkeyPatch, mute: TcpProxy
) -> None:
    monkeypatch.setattr(examination, "SECONDS", 0.5)
    monkeypatch.setitem(connection.settings_dict, "HOST", "127.0.0.1")
    monkeypatch.setitem(connection.settings_dict, "PORT", mute.port)

    server, claimed = examine(by_name("database", "claims"))

    assert_red(server.found, "no answer within 0.5 s")
    assert claimed.found.health == Health.UNKNOWN


def test_a_look_that_breaks_is_a_finding() -> None:
    def broken() -> Found:
        raise RuntimeError("s3cr3t")

    (found,) = examine([examination.Part("broken", broken)])

    assert_red(found.found, "looking failed with RuntimeError")


# --- the command ---------------------------------------------------------------------


def doctor(*arguments: str) -> str:
    """Run the command; return what it printed."""
    output = StringIO()
    call_command("doctor", *arguments, stdout=output)
    return output.getvalue()


def doctor_who_fails(*arguments: str) -> str:
    """Run the command that has one thing to say; return what it printed."""
    output = StringIO()
    with pytest.raises(CommandError) as failed:
        call_command("doctor", *arguments, stdout=output)
    assert str(failed.value) == f"1 of {len(PARTS)} checks failed"
    assert failed.value.returncode == 1
    return output.getvalue()


@pytest.mark.django_db(transaction=True)
def test_the_command_prints_a_line_for_each_part_and_fails_if_one_fails() -> None:
    assert len(doctor().splitlines()) == len(PARTS)

    one_in_doubt()

    lines = doctor_who_fails().splitlines()
    assert len(lines) == len(PARTS)
    (line,) = [line for line in lines if "FAIL" in line]
    assert line.startswith("uncertain sends     FAIL      1 send in doubt")
    assert "Next: settle" in line


@pytest.mark.django_db(transaction=True)
def test_the_command_says_the_same_as_json() -> None:
    one_in_doubt()

    told = json.loads(doctor_who_fails("--json"))

    assert told["ok"] is False
    assert [check["name"] for check in told["checks"]] == [p.name for p in PARTS]
    (bad,) = [check for check in told["checks"] if check["status"] == "fail"]
    assert bad["name"] == "uncertain sends"
    assert bad["next"].startswith("settle them")
