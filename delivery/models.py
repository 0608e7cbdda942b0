"""Deliveries, the attempts to make them, and what providers said of them."""

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Func, Q, Value
from django.db.models.fields.json import KT

from core.fields import ID_LENGTH, choice_check, created_at, id_check, updated_at
from delivery.statuses import (
    AttemptPhase,
    AttemptResult,
    DeliveryStatus,
    EventSource,
    InboxState,
    RecipientField,
)
from mailboxes.models import Message, tenant_column
from mailboxes.statuses import Provider


class Delivery(models.Model):
    """One recipient of one message, and its status."""

    pk = models.CompositePrimaryKey("message", "address")
    message = models.ForeignKey(
        Message, models.CASCADE, related_name="deliveries", db_column="message_pk"
    )
    tenant = tenant_column()
    address = models.CharField(max_length=254)
    field = models.TextField(choices=RecipientField)
    status = models.TextField(choices=DeliveryStatus)
    reason = models.TextField(null=True, blank=True)
    smtp_code = models.TextField(null=True, blank=True)
    enhanced_code = models.TextField(null=True, blank=True)
    smtp_response = models.CharField(max_length=512, null=True, blank=True)
    bounce_type = models.TextField(null=True, blank=True)
    charged_at = models.DateTimeField(null=True, blank=True)
    provider_event_ids = models.JSONField(default=list, db_default=[])
    updated_at = updated_at()

    class Meta:
        db_table = "deliveries"
        verbose_name_plural = "deliveries"
        constraints = [
            choice_check("deliveries", "field", RecipientField),
            choice_check("deliveries", "status", DeliveryStatus),
            models.CheckConstraint(
                condition=Q(bounce_type__isnull=True)
                | Q(bounce_type__in=["hard", "soft"]),
                name="deliveries_bounce_type_known",
            ),
        ]
        indexes = [
            models.Index(
                fields=["address", "updated_at"],
                condition=Q(status=DeliveryStatus.UNCERTAIN),
                name="deliveries_uncertain",
            )
        ]

    def __str__(self) -> str:
        return f"{self.address} {self.status}"


class OutboundState(models.Model):
    """The queue: exists while its message is queued, and says when it is due.

    Exactly one of ``dispatch_at`` and ``claim_token`` is set, so that no row is queued
    and forgotten. ``as_composed`` keeps From and Reply-To of a claimed message that
    leaves by fallback: its own row names the sender of the call.
    """

    message = models.OneToOneField(
        Message,
        models.CASCADE,
        primary_key=True,
        related_name="outbound_state",
        db_column="message_pk",
    )
    tenant = tenant_column()
    dispatch_at = models.DateTimeField(null=True, blank=True)
    rung_at = models.DateTimeField(null=True, blank=True)
    retry_at = models.DateTimeField(null=True, blank=True)
    claim_token = models.UUIDField(null=True, blank=True)
    claimed_at = models.DateTimeField(null=True, blank=True)
    as_composed = models.JSONField(null=True, blank=True)
    backoff_n = models.IntegerField(db_default=0)
    backoff_first_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        db_table = "outbound_state"
        constraints = [
            models.CheckConstraint(
                condition=Q(dispatch_at__isnull=False, claim_token__isnull=True)
                | Q(dispatch_at__isnull=True, claim_token__isnull=False),
                name="outbound_state_due_or_claimed",
            ),
            models.CheckConstraint(
                condition=Q(claim_token__isnull=True, claimed_at__isnull=True)
                | Q(claim_token__isnull=False, claimed_at__isnull=False),
                name="outbound_state_claim_has_time",
            ),
        ]
        indexes = [
            models.Index(
                fields=["dispatch_at"],
                condition=Q(dispatch_at__isnull=False),
                name="outbound_state_due",
            ),
            models.Index(
                fields=["claimed_at"],
                condition=Q(claimed_at__isnull=False),
                name="outbound_state_claimed",
            ),
            models.Index(
                fields=["rung_at"],
                condition=Q(rung_at__isnull=False),
                name="outbound_state_rung",
            ),
        ]

    def __str__(self) -> str:
        return str(self.message_id)


class Attempt(models.Model):
    """One conversation with a transport, and how far it got; append-only.

    A phase is committed before its first octet leaves, so it may say too much, never
    too little.
    """

    pk = models.CompositePrimaryKey("message", "n")
    message = models.ForeignKey(
        Message, models.CASCADE, related_name="attempts", db_column="message_pk"
    )
    tenant = tenant_column()
    n = models.IntegerField()
    provider = models.TextField(choices=Provider)
    claim_token = models.UUIDField()
    claimed_at = models.DateTimeField()
    phase = models.TextField(choices=AttemptPhase)
    provider_message_id = models.TextField(null=True, blank=True)
    rfc_message_id = models.TextField(null=True, blank=True)
    from_address = models.TextField()
    recipients = ArrayField(models.TextField(), default=list, db_default=[])
    finished_at = models.DateTimeField(null=True, blank=True)
    result = models.TextField(choices=AttemptResult, null=True, blank=True)
    code = models.TextField(null=True, blank=True)
    detail = models.CharField(max_length=512, null=True, blank=True)

    class Meta:
        db_table = "attempts"
        constraints = [
            choice_check("attempts", "provider", Provider),
            choice_check("attempts", "phase", AttemptPhase),
            models.CheckConstraint(
                condition=Q(result__isnull=True) | Q(result__in=AttemptResult.values),
                name="attempts_result_known",
            ),
        ]
        indexes = [
            models.Index(
                fields=["provider_message_id"],
                condition=Q(provider_message_id__isnull=False),
                name="attempts_by_provider_id",
            ),
            models.Index(
                fields=["rfc_message_id"],
                condition=Q(rfc_message_id__isnull=False),
                name="attempts_by_rfc_id",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.message_id} #{self.n}"


class ProviderEvent(models.Model):
    """The inbox: what a provider said, stored before it is acknowledged."""

    id = models.CharField(max_length=ID_LENGTH, primary_key=True)
    source = models.TextField(choices=EventSource)
    event_id = models.TextField()
    payload = models.JSONField()
    occurred_at = models.DateTimeField()
    received_at = created_at()
    state = models.TextField(choices=InboxState, db_default=InboxState.PENDING)
    due_at = models.DateTimeField(null=True, blank=True)
    rung_at = models.DateTimeField(null=True, blank=True)
    attempts = models.IntegerField(db_default=0)
    message = models.ForeignKey(
        Message,
        models.SET_NULL,
        null=True,
        blank=True,
        related_name="provider_events",
        db_column="message_pk",
    )

    class Meta:
        db_table = "provider_events"
        constraints = [
            id_check("provider_events", "pev"),
            choice_check("provider_events", "source", EventSource),
            choice_check("provider_events", "state", InboxState),
            models.UniqueConstraint(
                fields=["source", "event_id"], name="provider_events_once"
            ),
            models.CheckConstraint(
                condition=Q(state="pending", due_at__isnull=False)
                | (~Q(state="pending") & Q(due_at__isnull=True)),
                name="provider_events_pending_is_due",
            ),
        ]
        indexes = [
            models.Index(
                fields=["due_at"],
                condition=Q(due_at__isnull=False),
                name="provider_events_due",
            ),
            models.Index(
                fields=["rung_at"],
                condition=Q(rung_at__isnull=False, due_at__isnull=False),
                name="provider_events_rung",
            ),
            models.Index(
                Func(
                    KT("payload__sender"), Value("@"), Value(2), function="split_part"
                ),
                condition=Q(source__in=[EventSource.CLOUDFLARE, EventSource.SES]),
                name="provider_events_by_domain",
            ),
            models.Index(
                KT("payload__recipient"),
                condition=Q(state="orphaned"),
                name="provider_events_orphans",
            ),
            models.Index(
                fields=["received_at"],
                condition=Q(due_at__isnull=True),
                name="provider_events_ended",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.source} {self.event_id}"


class EventPull(models.Model):
    """Who may pull a provider's queue and when, and how often in a row that failed.

    A row a provider, from its first pull on. Until ``due_at`` nobody begins: it is the
    end of the turn that ``token`` stands for, or of the wait after a failure.
    """

    source = models.TextField(choices=EventSource, primary_key=True)
    due_at = models.DateTimeField()
    token = models.UUIDField(null=True, blank=True)
    failures = models.IntegerField(db_default=0)

    class Meta:
        db_table = "event_pulls"
        constraints = [choice_check("event_pulls", "source", EventSource)]

    def __str__(self) -> str:
        return self.source


class ReceivedBody(models.Model):
    """What a provider posted or queued, sealed as it came; kept for 30 days."""

    source = models.TextField(choices=EventSource)
    posted_id = models.TextField()
    sealed = models.TextField()
    received_at = created_at()

    class Meta:
        db_table = "received_bodies"
        verbose_name_plural = "received bodies"
        constraints = [
            choice_check("received_bodies", "source", EventSource),
            models.UniqueConstraint(
                fields=["source", "posted_id"], name="received_bodies_once"
            ),
        ]
        indexes = [models.Index(fields=["received_at"], name="received_bodies_by_age")]

    def __str__(self) -> str:
        return f"{self.source} {self.posted_id}"


class Watch(models.Model):
    """When something that goes by the clock was last seen to, and the time before.

    ``beat`` is the clock itself, as its last task marked it; every other name is an
    alert's condition, and whoever moves ``at`` looks at it.
    """

    name = models.TextField(primary_key=True)
    at = models.DateTimeField()
    previous_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        db_table = "watches"
        verbose_name_plural = "watches"

    def __str__(self) -> str:
        return self.name
