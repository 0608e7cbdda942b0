"""What was sent and received: threads, messages, and what stands beside them."""

from __future__ import annotations

from typing import Any

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import F, Q

from core.fields import ID_LENGTH, created_at, id_check, updated_at
from mailboxes.models.tenancy import Identity, tenant_column
from mailboxes.statuses import (
    INBOUND_KINDS,
    INBOUND_STATUSES,
    OUTBOUND_KINDS,
    OUTBOUND_STATUSES,
    Direction,
    Evidence,
    MessageKind,
    MessageStatus,
    Operation,
    Provider,
)


def _text_array() -> ArrayField[Any, Any]:
    return ArrayField(models.TextField(), default=list, db_default=[])


class Thread(models.Model):
    """A conversation in one mailbox."""

    key = models.BigAutoField(primary_key=True, db_column="pk")
    public_id = models.CharField(max_length=ID_LENGTH, unique=True, db_column="id")
    tenant = tenant_column()
    identity = models.ForeignKey(Identity, models.PROTECT, related_name="threads")
    seq = models.BigIntegerField()
    subject = models.TextField(db_default="")
    first_at = models.DateTimeField()
    last_at = models.DateTimeField()
    last_inbound_at = models.DateTimeField(null=True, blank=True)
    last_outbound_at = models.DateTimeField(null=True, blank=True)
    message_count = models.IntegerField(db_default=0)
    unread_count = models.IntegerField(db_default=0)
    participants = models.JSONField(default=list, db_default=[])
    reply_from_address = models.TextField(null=True, blank=True)
    fallback_pinned = models.BooleanField(db_default=False)
    lock_owner = models.CharField(max_length=ID_LENGTH, null=True, blank=True)
    lock_until = models.DateTimeField(null=True, blank=True)
    archived = models.BooleanField(db_default=False)
    created_at = created_at()

    class Meta:
        db_table = "threads"
        constraints = [
            id_check("threads", "thr", "public_id"),
            models.UniqueConstraint(
                fields=["identity", "seq"], name="threads_seq_unique"
            ),
            models.CheckConstraint(
                condition=Q(seq__gt=0) & Q(seq__lt=2**60), name="threads_seq_range"
            ),
        ]
        indexes = [
            models.Index(F("identity"), F("last_at").desc(), name="threads_by_last_at"),
        ]

    def __str__(self) -> str:
        return self.public_id


def _one_of(field: str, values: frozenset[Any]) -> Q:
    return Q(**{f"{field}__in": sorted(str(value) for value in values)})


class Message(models.Model):
    """One message of a mailbox, sent or received."""

    key = models.BigAutoField(primary_key=True, db_column="pk")
    public_id = models.CharField(max_length=ID_LENGTH, unique=True, db_column="id")
    tenant = tenant_column()
    identity = models.ForeignKey(Identity, models.PROTECT, related_name="messages")
    thread = models.ForeignKey(
        Thread, models.CASCADE, related_name="messages", db_column="thread_pk"
    )
    direction = models.TextField(choices=Direction)
    status = models.TextField(choices=MessageStatus)
    reason = models.TextField(null=True, blank=True)
    rfc_message_id = models.TextField(null=True, blank=True)
    message_id_synthetic = models.BooleanField(db_default=False)
    provider = models.TextField(choices=Provider, null=True, blank=True)
    provider_message_id = models.TextField(null=True, blank=True)
    in_reply_to = models.TextField(null=True, blank=True)
    ref_ids = _text_array()
    raw_sha256 = models.CharField(max_length=64, null=True, blank=True)
    raw_key = models.TextField(null=True, blank=True)
    raw_size = models.BigIntegerField(null=True, blank=True)
    from_address = models.TextField(null=True, blank=True)
    from_name = models.TextField(null=True, blank=True)
    sender_domain = models.TextField(null=True, blank=True)
    reply_to = models.JSONField(default=list, db_default=[])
    to_addrs = models.JSONField(default=list, db_default=[])
    cc_addrs = models.JSONField(default=list, db_default=[])
    bcc_addrs = models.JSONField(default=list, db_default=[])
    delivered_to = models.TextField(null=True, blank=True)
    is_bcc = models.BooleanField(db_default=False)
    is_primary_recipient = models.BooleanField(db_default=True)
    subject = models.TextField(null=True, blank=True)
    text = models.TextField(null=True, blank=True)
    html_sanitized = models.TextField(null=True, blank=True)
    extracted_text = models.TextField(null=True, blank=True)
    snippet = models.CharField(max_length=240, null=True, blank=True)
    sent_at = models.DateTimeField(null=True, blank=True)
    received_at = models.DateTimeField()
    kind = models.TextField(choices=MessageKind)
    automated = models.JSONField(null=True, blank=True)
    auth = models.JSONField(null=True, blank=True)
    verdict = models.TextField(null=True, blank=True)
    known_sender = models.BooleanField(null=True, blank=True)
    flags = _text_array()
    read = models.BooleanField(db_default=False)
    operation = models.TextField(choices=Operation, null=True, blank=True)
    cap_day = models.DateField(null=True, blank=True)
    evidence = models.TextField(choices=Evidence, null=True, blank=True)
    consent = models.JSONField(null=True, blank=True)
    metadata = models.JSONField(default=dict, db_default={})
    created_at = created_at()
    updated_at = updated_at()

    class Meta:
        db_table = "messages"
        constraints = [
            id_check("messages", "msg", "public_id"),
            models.CheckConstraint(
                condition=(
                    Q(direction=Direction.INBOUND)
                    & _one_of("status", INBOUND_STATUSES)
                    & _one_of("kind", INBOUND_KINDS)
                )
                | (
                    Q(direction=Direction.OUTBOUND)
                    & _one_of("status", OUTBOUND_STATUSES)
                    & _one_of("kind", OUTBOUND_KINDS)
                ),
                name="messages_status_fits_direction",
            ),
            models.CheckConstraint(
                condition=Q(provider__isnull=True) | Q(provider__in=Provider.values),
                name="messages_provider_known",
            ),
            models.CheckConstraint(
                condition=Q(operation__isnull=True) | Q(operation__in=Operation.values),
                name="messages_operation_known",
            ),
            models.CheckConstraint(
                condition=Q(evidence__isnull=True) | Q(evidence__in=Evidence.values),
                name="messages_evidence_known",
            ),
            models.CheckConstraint(
                condition=Q(verdict__isnull=True)
                | Q(
                    verdict__in=[
                        "pass",
                        "fail",
                        "softfail",
                        "none",
                        "unaligned",
                        "unverified",
                    ]
                ),
                name="messages_verdict_known",
            ),
            models.UniqueConstraint(
                fields=["identity", "raw_sha256"],
                condition=Q(direction=Direction.INBOUND),
                name="messages_inbound_once",
            ),
        ]
        indexes = [
            models.Index(fields=["thread", "received_at"], name="messages_by_thread"),
            models.Index(
                fields=["identity", "rfc_message_id"], name="messages_by_rfc_id"
            ),
            models.Index(
                fields=["identity", "provider_message_id"],
                name="messages_by_provider_id",
            ),
            models.Index(
                F("identity"), F("received_at").desc(), name="messages_by_received_at"
            ),
            models.Index(fields=["identity", "from_address"], name="messages_by_from"),
            models.Index(
                fields=["identity", "direction", "status"], name="messages_by_status"
            ),
        ]

    def __str__(self) -> str:
        return self.public_id


class Attachment(models.Model):
    """A part of a message that is a file."""

    id = models.CharField(max_length=ID_LENGTH, primary_key=True)
    tenant = tenant_column()
    message = models.ForeignKey(
        Message, models.CASCADE, related_name="attachments", db_column="message_pk"
    )
    part_index = models.IntegerField()
    filename = models.TextField(null=True, blank=True)
    content_type = models.TextField()
    sniffed_type = models.TextField(null=True, blank=True)
    size = models.BigIntegerField()
    sha256 = models.CharField(max_length=64)
    disposition = models.TextField(null=True, blank=True)
    content_id = models.TextField(null=True, blank=True)
    object_key = models.TextField()
    text_status = models.TextField(db_default="skipped")
    risk = models.TextField(null=True, blank=True)
    scan_status = models.TextField(db_default="skipped")

    class Meta:
        db_table = "attachments"
        constraints = [
            id_check("attachments", "att"),
            models.CheckConstraint(
                condition=Q(disposition__isnull=True)
                | Q(disposition__in=["attachment", "inline"]),
                name="attachments_disposition_known",
            ),
            models.CheckConstraint(
                condition=Q(
                    text_status__in=["pending", "ready", "unavailable", "skipped"]
                ),
                name="attachments_text_status_known",
            ),
            models.CheckConstraint(
                condition=Q(
                    scan_status__in=["skipped", "pending", "clean", "infected", "error"]
                ),
                name="attachments_scan_status_known",
            ),
        ]

    def __str__(self) -> str:
        return self.id


class Label(models.Model):
    """A word that a caller filed a message under."""

    pk = models.CompositePrimaryKey("message", "label")
    message = models.ForeignKey(
        Message, models.CASCADE, related_name="labels", db_column="message_pk"
    )
    tenant = tenant_column()
    label = models.CharField(max_length=64)

    class Meta:
        db_table = "labels"
        constraints = [
            models.CheckConstraint(
                condition=Q(label__regex=r"^[a-z0-9][a-z0-9_:-]{0,63}$"),
                name="labels_form",
            )
        ]
        indexes = [models.Index(fields=["label", "message"], name="labels_by_label")]

    def __str__(self) -> str:
        return self.label


class Contact(models.Model):
    """An address that this mailbox has written to, or heard from."""

    pk = models.CompositePrimaryKey("identity", "address")
    identity = models.ForeignKey(Identity, models.CASCADE, related_name="contacts")
    tenant = tenant_column()
    address = models.CharField(max_length=254)
    name = models.TextField(null=True, blank=True)
    domain = models.TextField()
    first_seen_at = models.DateTimeField()
    last_seen_at = models.DateTimeField()
    inbound_count = models.IntegerField(db_default=0)
    outbound_count = models.IntegerField(db_default=0)
    last_thread_pk = models.BigIntegerField(null=True, blank=True)

    class Meta:
        db_table = "contacts"

    def __str__(self) -> str:
        return self.address
