"""Where events go, which of them are on their way, and how each attempt ended."""

from __future__ import annotations

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Q

from core.fields import ID_LENGTH, choice_check, created_at, id_check, updated_at
from mailboxes.models import Event, Tenant
from webhooks.statuses import (
    AttemptError,
    AttemptStatus,
    DisabledReason,
    DispatchState,
)


class WebhookEndpoint(models.Model):
    """An address that is told of events; without a tenant it is the platform's.

    ``failures`` counts the attempts that failed since the last success, and
    ``failing_since`` is when the first of them did.
    """

    id = models.CharField(max_length=ID_LENGTH, primary_key=True)
    tenant = models.ForeignKey(
        Tenant, models.PROTECT, null=True, blank=True, related_name="+"
    )
    url = models.TextField()
    events = ArrayField(models.TextField())
    identity_ids = ArrayField(
        models.CharField(max_length=ID_LENGTH), null=True, blank=True
    )
    description = models.TextField(db_default="", blank=True)
    disabled_reason = models.TextField(choices=DisabledReason, null=True, blank=True)
    disabled_at = models.DateTimeField(null=True, blank=True)
    secret_enc = models.TextField()
    prev_secret_enc = models.TextField(null=True, blank=True)
    prev_secret_until = models.DateTimeField(null=True, blank=True)
    failures = models.IntegerField(db_default=0)
    failing_since = models.DateTimeField(null=True, blank=True)
    last_success_at = models.DateTimeField(null=True, blank=True)
    created_at = created_at()
    updated_at = updated_at()

    class Meta:
        db_table = "webhook_endpoints"
        constraints = [
            id_check("webhook_endpoints", "whk"),
            choice_check("webhook_endpoints", "disabled_reason", DisabledReason),
            models.CheckConstraint(
                condition=Q(disabled_reason__isnull=True, disabled_at__isnull=True)
                | Q(disabled_reason__isnull=False, disabled_at__isnull=False),
                name="webhook_endpoints_disabled_with_reason",
            ),
            models.CheckConstraint(
                condition=Q(
                    prev_secret_enc__isnull=True, prev_secret_until__isnull=True
                )
                | Q(prev_secret_enc__isnull=False, prev_secret_until__isnull=False),
                name="webhook_endpoints_old_secret_ends",
            ),
            models.CheckConstraint(
                condition=Q(failures=0, failing_since__isnull=True)
                | Q(failures__gt=0, failing_since__isnull=False),
                name="webhook_endpoints_failing_since_first",
            ),
            models.CheckConstraint(
                condition=Q(events__len__gt=0), name="webhook_endpoints_some_events"
            ),
        ]
        indexes = [
            models.Index(
                fields=["tenant", "created_at", "id"],
                name="webhook_endpoints_by_tenant",
            )
        ]

    def __str__(self) -> str:
        return self.id


class WebhookDispatch(models.Model):
    """One event on its way to one endpoint; the row is the queue.

    ``step`` counts the failures of the current run of the schedule, which a replay
    starts anew; ``attempts`` counts all attempts there ever were. A pending row is due;
    one that is being attempted is due again once the attempt must have ended.
    """

    endpoint = models.ForeignKey(
        WebhookEndpoint, models.CASCADE, related_name="dispatches"
    )
    event = models.ForeignKey(
        Event, models.CASCADE, db_constraint=False, related_name="+"
    )
    event_type = models.TextField()
    state = models.TextField(choices=DispatchState, db_default=DispatchState.PENDING)
    step = models.IntegerField(db_default=0)
    attempts = models.IntegerField(db_default=0)
    due_at = models.DateTimeField(null=True, blank=True)
    rung_at = models.DateTimeField(null=True, blank=True)
    created_at = created_at()

    class Meta:
        db_table = "webhook_dispatches"
        constraints = [
            choice_check("webhook_dispatches", "state", DispatchState),
            models.UniqueConstraint(
                fields=["endpoint", "event"], name="webhook_dispatches_once"
            ),
            models.CheckConstraint(
                condition=Q(state="pending", due_at__isnull=False)
                | (~Q(state="pending") & Q(due_at__isnull=True)),
                name="webhook_dispatches_pending_is_due",
            ),
        ]
        indexes = [
            models.Index(
                fields=["due_at"],
                condition=Q(due_at__isnull=False),
                name="webhook_dispatches_due",
            ),
            models.Index(
                fields=["endpoint", "due_at"],
                condition=Q(rung_at__isnull=True, due_at__isnull=False),
                name="webhook_dispatches_not_rung",
            ),
            models.Index(
                fields=["endpoint"],
                condition=Q(rung_at__isnull=False, due_at__isnull=False),
                name="webhook_dispatches_rung",
            ),
            models.Index(fields=["event"], name="webhook_dispatches_by_event"),
        ]

    def __str__(self) -> str:
        return f"{self.event_id} to {self.endpoint_id}"


class WebhookAttempt(models.Model):
    """One request to an endpoint and its end; append-only.

    A ``webhook.test`` has no dispatch: nothing of it is repeated.
    """

    id = models.CharField(max_length=ID_LENGTH, primary_key=True)
    endpoint = models.ForeignKey(
        WebhookEndpoint, models.CASCADE, related_name="attempts"
    )
    event_id = models.CharField(max_length=ID_LENGTH)
    event_type = models.TextField()
    attempt = models.IntegerField()
    status = models.TextField(choices=AttemptStatus)
    http_status = models.SmallIntegerField(null=True, blank=True)
    error = models.TextField(choices=AttemptError, null=True, blank=True)
    detail = models.TextField(db_default="", blank=True)
    duration_ms = models.IntegerField(null=True, blank=True)
    next_attempt_at = models.DateTimeField(null=True, blank=True)
    created_at = created_at()

    class Meta:
        db_table = "webhook_attempts"
        constraints = [
            id_check("webhook_attempts", "dlv"),
            choice_check("webhook_attempts", "status", AttemptStatus),
            choice_check("webhook_attempts", "error", AttemptError),
        ]
        indexes = [
            models.Index(
                fields=["endpoint", "created_at", "id"],
                name="webhook_attempts_by_endpoint",
            ),
            models.Index(
                fields=["endpoint", "event_id", "created_at"],
                name="webhook_attempts_by_event",
            ),
            models.Index(
                fields=["created_at"],
                condition=Q(error="ssrf_blocked"),
                name="webhook_attempts_blocked",
            ),
        ]

    def __str__(self) -> str:
        return self.id
