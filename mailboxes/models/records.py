"""What is told, done and noticed: events, audit rows, alerts."""

from __future__ import annotations

from django.db import models
from django.db.models import F, Func, Q, Value
from django.db.models.fields.json import KT
from django.db.models.functions import Coalesce, Now

from core.fields import ID_LENGTH, choice_check, created_at, id_check
from mailboxes.models.tenancy import Identity, Tenant
from mailboxes.statuses import EventOwner, Severity


def told_message() -> Coalesce:
    """Return the id of the message that an event tells of, wherever its data has it."""
    return Coalesce(
        KT("payload__data__message_id"),
        KT("payload__data__message__id"),
        KT("payload__data__source_message_id"),
    )


def _in_feed(*fields: str, name: str) -> models.Index:
    """Return an index that a row is not in before it has a place in the feed."""
    return models.Index(fields=fields, condition=Q(position__isnull=False), name=name)


class Event(models.Model):
    """The outbox: what clients are told, written with the change it tells of.

    ``arrival`` rises with the inserts, so that of one owner's events, whose inserts
    wait for each other, it rises with the commits. ``position`` is the place in the
    feed: given once the row is committed, by one writer at a time.
    """

    id = models.CharField(max_length=ID_LENGTH, primary_key=True)
    tenant = models.ForeignKey(
        Tenant,
        models.PROTECT,
        null=True,
        blank=True,
        related_name="+",
        db_index=False,
    )
    identity = models.ForeignKey(
        Identity,
        models.PROTECT,
        null=True,
        blank=True,
        related_name="+",
        db_index=False,
    )
    arrival = models.BigIntegerField(
        db_default=Func(Value("events_arrival_seq"), function="nextval"),
        editable=False,
    )
    owner_kind = models.TextField(choices=EventOwner)
    owner_id = models.TextField()
    seq = models.BigIntegerField()
    position = models.BigIntegerField(null=True, blank=True, unique=True)
    type = models.TextField()
    payload = models.JSONField()
    occurred_at = models.DateTimeField()
    dispatched_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        db_table = "events"
        constraints = [
            id_check("events", "evt"),
            choice_check("events", "owner_kind", EventOwner),
            models.UniqueConstraint(
                fields=["owner_kind", "owner_id", "seq"], name="events_seq_unique"
            ),
        ]
        indexes = [
            models.Index(
                fields=["arrival"],
                condition=Q(dispatched_at__isnull=True),
                name="events_unnumbered",
            ),
            _in_feed("tenant", "position", name="events_of_tenant"),
            _in_feed("tenant", "type", "position", name="events_of_tenant_by_type"),
            _in_feed("identity", "position", name="events_of_identity"),
            _in_feed("type", "position", name="events_by_type"),
            models.Index(
                told_message(),
                F("position"),
                condition=Q(position__isnull=False),
                name="events_of_message",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.type} {self.id}"


class AuditRow(models.Model):
    """Who did what, without content or clear addresses."""

    id = models.CharField(max_length=ID_LENGTH, primary_key=True)
    tenant = models.ForeignKey(
        Tenant, models.PROTECT, null=True, blank=True, related_name="+"
    )
    actor_key_id = models.CharField(max_length=ID_LENGTH, null=True, blank=True)
    actor_user_id = models.TextField(null=True, blank=True)
    action = models.TextField()
    target_type = models.TextField(null=True, blank=True)
    target_id = models.TextField(null=True, blank=True)
    details = models.JSONField(null=True, blank=True)
    request_id = models.TextField(null=True, blank=True)
    created_at = created_at()

    class Meta:
        db_table = "audit_log"
        constraints = [id_check("audit_log", "aud")]
        indexes = [
            models.Index(fields=["tenant", "created_at"], name="audit_by_tenant"),
            models.Index(fields=["actor_key_id", "created_at"], name="audit_by_key"),
            models.Index(
                fields=["action", "target_id", "created_at"], name="audit_by_target"
            ),
            models.Index(fields=["created_at", "id"], name="audit_by_time"),
            models.Index(
                fields=["target_id", "created_at"], name="audit_by_target_alone"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.action} {self.target_id}"


class IdempotencyRecord(models.Model):
    """The answer to a POST that sends no mail, under its key: stored with what it did.

    Each key of the API has its own; nothing of it is a secret, and a refusal leaves no
    row.
    """

    pk = models.CompositePrimaryKey("scope", "key_id", "key_hash")
    scope = models.CharField(max_length=ID_LENGTH)
    key_id = models.CharField(max_length=ID_LENGTH)
    key_hash = models.CharField(max_length=64)
    fingerprint = models.CharField(max_length=64)
    response_status = models.SmallIntegerField()
    response_body = models.JSONField()
    created_at = created_at()
    expires_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        db_table = "idempotency_records"
        constraints = [
            models.CheckConstraint(
                condition=Q(key_hash__regex=r"^[0-9a-f]{64}$"),
                name="idempotency_records_key_hash_form",
            ),
            models.CheckConstraint(
                condition=Q(response_status__gte=200, response_status__lt=300),
                name="idempotency_records_success_only",
            ),
        ]
        indexes = [
            models.Index(fields=["expires_at"], name="idempotency_records_expiry")
        ]

    def __str__(self) -> str:
        return self.key_hash


class Alert(models.Model):
    """Something that a person should look at; open until it is resolved."""

    id = models.CharField(max_length=ID_LENGTH, primary_key=True)
    name = models.TextField()
    subject = models.TextField(db_default="")
    severity = models.TextField(choices=Severity)
    details = models.JSONField(default=dict, db_default={})
    first_at = models.DateTimeField(db_default=Now())
    last_at = models.DateTimeField(db_default=Now())
    notified_at = models.DateTimeField(null=True, blank=True)
    resolved_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        db_table = "alerts"
        constraints = [
            id_check("alerts", "alr"),
            choice_check("alerts", "severity", Severity),
            models.UniqueConstraint(
                fields=["name", "subject"],
                condition=Q(resolved_at__isnull=True),
                name="alerts_one_open",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.name} {self.subject}"
