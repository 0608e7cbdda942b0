"""Conditions that a person has to hear of: they fire, last, end, and fire again."""

import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from prometheus_client import REGISTRY
from structlog.testing import capture_logs

from core import clock
from core.clock import database_now
from core.errors import InvalidRequest
from core.ids import new_id
from delivery.models import Delivery, OutboundState, ProviderEvent, Watch
from domains.models import Domain
from mailboxes.alert_services import close_alert
from mailboxes.models import Alert, AuditRow, Event
from mailboxes.services import raise_alert, resolve_alerts
from mailboxes.statuses import Provider, Severity
from outbound.models import Breaker
from pylota.tasks import keep_watch as beats_task
from pylota.watch import evaluate
from pylota.watch.conditions import CONDITIONS, SEALED, Condition
from pylota.watch.evaluate import keep_watch, look, mark_beat, signs
from quota.models import Hold
from tests.factories import DomainFactory, QueuedMessageFactory, TenantFactory

pytestmark = pytest.mark.django_db

BREAKER = "transport_breaker_open"


def later(**age: float) -> None:
    clock.offset += timedelta(**age)


def of(name: str) -> Condition:
    (found,) = (one for one in CONDITIONS if one.name == name)
    return found


def next_look(name: str) -> None:
    """Look at a condition when its time has come again."""
    later(seconds=of(name).every.total_seconds())
    assert look(of(name))


def open_breaker(scope: str = "account") -> Breaker:
    return Breaker.objects.create(
        provider=Provider.SES,
        scope=scope,
        unknowns=3,
        openings=1,
        probe_at=database_now(),
    )


def close_breaker(scope: str = "account") -> None:
    Breaker.objects.filter(provider=Provider.SES, scope=scope).delete()


def audited() -> list[str]:
    rows = AuditRow.objects.filter(action__startswith="alert.").order_by("id")
    return list(rows.values_list("action", flat=True))


# --- the life of an alert ------------------------------------------------------------


def test_what_becomes_true_fires_once_with_an_audit_row_a_log_line_and_a_count(
    django_capture_on_commit_callbacks: Any,
) -> None:
    # Given a counter as it stands
    labels = {"alert": BREAKER, "severity": "page"}
    before = REGISTRY.get_sample_value("alert_fired_total", labels) or 0
    open_breaker()

    # When three looks find it true
    with (
        capture_logs() as logs,
        django_capture_on_commit_callbacks(execute=True),
    ):
        for _ in range(3):
            next_look(BREAKER)

    # Then it was told once, and the row says when it was last true
    (alert,) = Alert.objects.all()
    assert (alert.name, alert.subject, alert.severity) == (
        BREAKER,
        "ses:account",
        "page",
    )
    assert alert.last_at - alert.first_at >= timedelta(minutes=2)
    assert alert.resolved_at is None
    (row,) = AuditRow.objects.filter(action="alert.fire")
    assert (row.target_type, row.target_id, row.tenant_id) == ("alert", alert.id, None)
    assert row.details == {
        "name": BREAKER,
        "subject": "ses:account",
        "severity": "page",
    }
    (line,) = [line for line in logs if line["event"] == "alert_fired"]
    assert (line["detail"], line["status"]) == (BREAKER, "page")
    assert REGISTRY.get_sample_value("alert_fired_total", labels) == before + 1


def test_it_is_over_at_the_second_false_look_in_a_row_and_fires_again_as_another() -> (
    None
):
    open_breaker()
    next_look(BREAKER)

    close_breaker()
    next_look(BREAKER)
    assert Alert.objects.get().resolved_at is None

    next_look(BREAKER)
    assert Alert.objects.get().resolved_at is not None
    assert audited() == ["alert.fire", "alert.resolve"]

    open_breaker()
    next_look(BREAKER)
    assert Alert.objects.filter(resolved_at=None).count() == 1
    assert Alert.objects.count() == 2
    assert audited() == ["alert.fire", "alert.resolve", "alert.fire"]


def test_one_false_look_between_two_true_ones_ends_nothing() -> None:
    open_breaker()
    next_look(BREAKER)

    for _ in range(3):
        close_breaker()
        next_look(BREAKER)
        open_breaker()
        next_look(BREAKER)

    assert Alert.objects.get().resolved_at is None
    assert audited() == ["alert.fire"]


def test_false_looks_count_however_long_nobody_looked_in_between() -> None:
    """After a night without a deployment, one look is one look."""
    open_breaker()
    next_look(BREAKER)
    close_breaker()
    later(hours=9)

    next_look(BREAKER)
    assert Alert.objects.get().resolved_at is None

    next_look(BREAKER)
    assert Alert.objects.get().resolved_at is not None


def test_each_subject_has_an_alert_of_its_own() -> None:
    for scope in ("account", "dom_2"):
        open_breaker(scope)
    next_look(BREAKER)

    close_breaker("dom_2")
    for _ in range(2):
        next_look(BREAKER)

    still = Alert.objects.filter(resolved_at=None).values_list("subject", flat=True)
    assert list(still) == ["ses:account"]


def test_of_more_subjects_than_a_look_tells_of_none_is_taken_for_over() -> None:
    for n in range(120):
        open_breaker(f"dom_{n:03}")
    next_look(BREAKER)
    assert Alert.objects.count() == 100

    # those that are told of now are others; the first ones are true all the same
    Breaker.objects.filter(scope__lt="dom_000").delete()
    Breaker.objects.bulk_create(
        Breaker(
            provider=Provider.CLOUDFLARE,
            scope=f"dom_{n:03}",
            unknowns=3,
            openings=1,
            probe_at=database_now(),
        )
        for n in range(100)
    )
    for _ in range(3):
        next_look(BREAKER)

    assert Alert.objects.filter(resolved_at=None).count() == 200


def test_a_look_that_is_not_due_does_nothing() -> None:
    next_look(BREAKER)
    open_breaker()
    later(seconds=59)

    assert look(of(BREAKER)) is False
    assert keep_watch([of(BREAKER)]) == 0
    assert not Alert.objects.exists()


def test_a_condition_that_cannot_be_asked_keeps_no_other_and_is_asked_again(
    transactional_db: None,
) -> None:
    broken = Condition(
        name="broken",
        title="broken",
        severity=Severity.PAGE,
        sql="SELECT '', jsonb_build_object('n', 1 / (random() * 0)::int)",
        well="",
        words="",
        then="",
    )
    open_breaker()

    with capture_logs() as logs:
        assert keep_watch([broken, of(BREAKER)]) == 1
        assert keep_watch([broken, of(BREAKER)]) == 0

    assert [line["event"] for line in logs].count("watch_failed") == 2
    assert Alert.objects.get().name == BREAKER


def test_an_alert_of_an_occurrence_is_audited_and_counted_alike() -> None:
    for _ in range(3):
        raise_alert("provider_quota", subject="ses", severity=Severity.PAGE)
    for _ in range(2):
        resolve_alerts("provider_quota", "ses_sending_paused", subject="ses")

    assert audited() == ["alert.fire", "alert.resolve"]


# --- closed by a person --------------------------------------------------------------


def test_a_person_closes_an_alert_once_and_says_why() -> None:
    raise_alert("inbound_copy_failed", subject="job_1")
    alert = Alert.objects.get()

    closed = [
        close_alert(alert.id, reason=" mended the disk ", actor_user_id="7")
        for _ in range(2)
    ]

    alert.refresh_from_db()
    assert closed == [True, False]
    assert alert.resolved_at is not None
    (row,) = AuditRow.objects.filter(action="alert.close")
    assert (row.actor_user_id, row.target_id) == ("7", alert.id)
    assert row.details == {
        "name": "inbound_copy_failed",
        "subject": "job_1",
        "reason": "mended the disk",
    }


def test_no_alert_is_closed_that_is_not_there() -> None:
    assert close_alert(new_id("alr"), reason="gone") is False
    assert audited() == []


@pytest.mark.parametrize("reason", ["", "  \t\n", "x" * 501])
def test_closing_without_a_reason_is_refused(reason: str) -> None:
    raise_alert("inbound_copy_failed", subject="job_1")

    with pytest.raises(InvalidRequest) as refused:
        close_alert(Alert.objects.get().id, reason=reason)

    assert refused.value.details["errors"][0]["path"] == "reason"
    assert Alert.objects.get().resolved_at is None


def test_a_condition_that_is_closed_and_still_true_fires_as_another() -> None:
    open_breaker()
    next_look(BREAKER)
    close_alert(Alert.objects.get().id, reason="seen")

    next_look(BREAKER)

    assert Alert.objects.filter(resolved_at=None).count() == 1
    assert audited() == ["alert.fire", "alert.close", "alert.fire"]


# --- each condition ------------------------------------------------------------------


def in_doubt(count: int, *, minutes_ago: float = 1) -> None:
    at = database_now() - timedelta(minutes=minutes_ago)
    for _ in range(count):
        message = QueuedMessageFactory.create()
        Delivery.objects.filter(message=message).update(
            status="uncertain", updated_at=at
        )


def sealed_elsewhere() -> None:
    """A secret whose key is not set: the name of the key says so."""
    domain = DomainFactory.create()
    sealed = Domain.objects.get(id=domain.id).smtp_sealed or ""
    version, _, *rest = sealed.split(".")
    Domain.objects.filter(id=domain.id).update(
        smtp_pending_sealed=".".join([version, "0" * 16, *rest])
    )


def orphans(count: int) -> None:
    ProviderEvent.objects.bulk_create(
        ProviderEvent(
            id=new_id("pev"),
            source="ses",
            event_id=uuid4().hex,
            payload={},
            occurred_at=database_now(),
            state="orphaned",
        )
        for _ in range(count)
    )


def claimed_ago(seconds: float) -> None:
    QueuedMessageFactory.create()
    OutboundState.objects.update(
        dispatch_at=None,
        claim_token=uuid4(),
        claimed_at=database_now() - timedelta(seconds=seconds),
    )


def due_ago(seconds: float) -> None:
    QueuedMessageFactory.create()
    OutboundState.objects.update(
        dispatch_at=database_now() - timedelta(seconds=seconds)
    )


def event_ago(seconds: float) -> None:
    tenant = TenantFactory.create()
    Event.objects.create(
        id=new_id("evt"),
        tenant=tenant,
        owner_kind="platform",
        owner_id=tenant.id,
        seq=1,
        type="billing.plan_changed",
        payload={},
        occurred_at=database_now() - timedelta(seconds=seconds),
    )


def hold_ago(seconds: float) -> None:
    QueuedMessageFactory.create()
    Hold.objects.update(expires_at=database_now() - timedelta(seconds=seconds))


def beat_ago(seconds: float) -> None:
    mark_beat()
    Watch.objects.update(at=database_now() - timedelta(seconds=seconds))


def platform_in(state: str) -> None:
    Domain.objects.filter(kind="platform").delete()
    DomainFactory.create(
        tenant=None, kind="platform", method="platform", state=state, name="p.example"
    )


Make = Callable[[], object]


@pytest.mark.parametrize(
    ("name", "make", "expected"),
    [
        ("uncertain_spike", lambda: in_doubt(5), []),
        ("uncertain_spike", lambda: in_doubt(6), [""]),
        ("uncertain_spike", lambda: in_doubt(6, minutes_ago=15.1), []),
        (BREAKER, lambda: open_breaker("account"), ["ses:account"]),
        ("delivery_orphaned", lambda: orphans(10), []),
        ("delivery_orphaned", lambda: orphans(11), [""]),
        ("claims_overdue", lambda: claimed_ago(355), []),
        ("claims_overdue", lambda: claimed_ago(361), [""]),
        ("rows_overdue", lambda: due_ago(55), []),
        ("rows_overdue", lambda: due_ago(61), ["outbound_state"]),
        ("outbox_stalled", lambda: event_ago(55), []),
        ("outbox_stalled", lambda: event_ago(61), [""]),
        ("holds_overdue", lambda: hold_ago(55), []),
        ("holds_overdue", lambda: hold_ago(61), [""]),
        ("beat_stale", lambda: beat_ago(115), []),
        ("beat_stale", lambda: beat_ago(121), [""]),
        (
            "sealed_secret_unreadable",
            sealed_elsewhere,
            ["domains.smtp_pending_sealed"],
        ),
        ("platform_domain_failing", lambda: platform_in("healthy"), []),
        ("platform_domain_failing", lambda: platform_in("failing"), ["p.example"]),
        ("domain_failing", lambda: DomainFactory.create(state="degraded"), []),
        (
            "domain_failing",
            lambda: DomainFactory.create(state="suspended", name="s.example"),
            ["s.example"],
        ),
    ],
)
def test_a_condition_is_true_from_its_bound_on(
    name: str, make: Make, expected: list[str]
) -> None:
    make()

    found = signs(of(name), now=database_now())

    told = [sign.details.get("domain", sign.subject) for sign in found]
    assert told == expected


def test_every_condition_is_attacked_above_or_in_a_file_of_its_own() -> None:
    (attacked,) = (
        mark.args[1]
        for mark in test_a_condition_is_true_from_its_bound_on.pytestmark  # type: ignore[attr-defined]  # the decorator adds it
        if mark.name == "parametrize"
    )

    assert {name for name, _, expected in attacked if expected} | {
        "feedback_silent"
    } == {condition.name for condition in CONDITIONS}


def test_the_words_of_each_condition_name_what_its_statement_gives() -> None:
    for condition in CONDITIONS:
        named = set(re.findall(r"\{(\w+)\}", condition.words)) - {"n", "named"}
        assert all(f"'{name}'" in condition.sql for name in named), condition.name
    assert len({condition.title for condition in CONDITIONS}) == len(CONDITIONS)


def test_every_sealed_column_is_looked_at() -> None:
    """But what providers posted: it is kept to be read, and nothing waits for it."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT table_name, column_name FROM information_schema.columns"
            " WHERE table_schema = 'public' AND (column_name ~ '(_enc|sealed)$'"
            " OR column_name = 'ciphertext') AND table_name <> 'received_bodies'"
        )
        assert set(cursor.fetchall()) == set(SEALED)


# --- who looks -----------------------------------------------------------------------


@pytest.fixture
def _fresh() -> None:
    """Let nothing have been looked at ever."""
    Watch.objects.all().delete()


@pytest.mark.usefixtures("_fresh")
def test_a_dead_beat_is_seen_by_the_workers_and_not_before_it_could_begin() -> None:
    # Given workers that look, and a beat that was never started
    keep_watch()
    assert not Alert.objects.exists()

    # When two minutes have gone by without it
    later(seconds=121)
    keep_watch()

    # Then the workers tell of it; and once it runs it is over
    assert Alert.objects.get().name == "beat_stale"
    for _ in range(2):
        later(seconds=60)
        beats_task()
    assert Alert.objects.get().resolved_at is not None


@pytest.mark.usefixtures("_fresh")
def test_a_minutes_look_takes_a_bounded_number_of_statements() -> None:
    # Given something wrong with many subjects
    for n in range(50):
        open_breaker(f"dom_{n}")
        DomainFactory.create(state="failing")
    keep_watch()
    later(minutes=10)

    # When all of it is looked at, and when nothing is due
    with CaptureQueriesContext(connection) as due:
        assert keep_watch() == len(CONDITIONS)
    with CaptureQueriesContext(connection) as idle:
        assert keep_watch() == 0

    # Then each condition took the clock, a turn, a question, at most two answers, and
    # here a savepoint and its release; an idle look takes the clock and one question
    assert len(due) <= 2 + 7 * len(CONDITIONS)
    assert len(idle) == 2


def test_the_bounds_follow_the_alarms(settings: Any) -> None:
    settings.PM_ALARM_SECONDS = 60

    bounds = evaluate._bounds(now := database_now())

    assert now - bounds["late"] == timedelta(minutes=4)
    assert now - bounds["beaten"] == timedelta(minutes=8)
