"""Who may send, and what was sent: tenants, keys, identities, threads, messages."""

from __future__ import annotations

from typing import Any

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Now

from core.fields import ID_LENGTH, choice_check, created_at, id_check, updated_at
from mailboxes.statuses import (
    INBOUND_KINDS,
    INBOUND_STATUSES,
    OUTBOUND_KINDS,
    OUTBOUND_STATUSES,
    AddressRole,
    AddressStatus,
    Direction,
    EventOwner,
    Evidence,
    IdentityStatus,
    KeyLevel,
    KeyPurpose,
    MessageKind,
    MessageStatus,
    Operation,
    PauseReason,
    Provider,
    Severity,
    TenantMode,
    TenantStatus,
)


def _text_array() -> ArrayField[Any, Any]:
    return ArrayField(models.TextField(), default=list, db_default=[])


def tenant_column() -> models.ForeignKey[Any, Any]:
    """Return the tenant column of a row whose parent row already pins its tenant.

    Scope is asked of this column; the database checks the parent's key alone.
    """
    return models.ForeignKey(
        Tenant, models.PROTECT, related_name="+", db_constraint=False, db_index=False
    )


class Tenant(models.Model):
    """A customer of the deployment, or one of its environments."""

    id = models.CharField(max_length=ID_LENGTH, primary_key=True)
    slug = models.CharField(max_length=32, unique=True)
    name = models.TextField()
    mode = models.TextField(choices=TenantMode)
    status = models.TextField(choices=TenantStatus, db_default=TenantStatus.ACTIVE)
    suspended_at = models.DateTimeField(null=True, blank=True)
    address_suffix = models.CharField(max_length=33, unique=True)
    suffix_fold = models.TextField()
    timezone = models.TextField(db_default="UTC")
    tz_next = models.JSONField(null=True, blank=True)
    policy = models.JSONField(default=dict, db_default={})
    policy_ceilings = models.JSONField(default=dict, db_default={})
    policy_version = models.IntegerField(db_default=0)
    created_at = created_at()
    updated_at = updated_at()

    class Meta:
        db_table = "tenants"
        constraints = [
            id_check("tenants", "ten"),
            choice_check("tenants", "mode", TenantMode),
            choice_check("tenants", "status", TenantStatus),
            models.CheckConstraint(
                condition=Q(slug__regex=r"^[a-z0-9][a-z0-9-]{1,31}$"),
                name="tenants_slug_form",
            ),
            models.CheckConstraint(
                condition=Q(address_suffix__regex=r"^(\.[a-z0-9][a-z0-9-]{1,31})?$"),
                name="tenants_address_suffix_form",
            ),
            models.UniqueConstraint(
                fields=["suffix_fold"],
                condition=~Q(suffix_fold=""),
                name="tenants_suffix_fold_unique",
            ),
        ]

    def __str__(self) -> str:
        return self.slug


class Identity(models.Model):
    """Who sends: a mailbox with a name, an owner and addresses."""

    id = models.CharField(max_length=ID_LENGTH, primary_key=True)
    tenant = models.ForeignKey(Tenant, models.PROTECT, related_name="identities")
    username = models.CharField(max_length=24)
    display_name = models.CharField(max_length=78)
    purpose = models.TextField(null=True, blank=True)
    client_id = models.TextField(null=True, blank=True)
    client_fingerprint = models.TextField(null=True, blank=True)
    owner_name = models.TextField(null=True, blank=True)
    owner_email = models.TextField(null=True, blank=True)
    signature_text = models.TextField(null=True, blank=True)
    signature_html = models.TextField(null=True, blank=True)
    status = models.TextField(choices=IdentityStatus, db_default=IdentityStatus.ACTIVE)
    pause_reason = models.TextField(choices=PauseReason, null=True, blank=True)
    send_policy = models.JSONField(default=dict, db_default={})
    metadata = models.JSONField(default=dict, db_default={})
    is_system = models.BooleanField(db_default=False)
    created_at = created_at()
    updated_at = updated_at()

    class Meta:
        db_table = "identities"
        verbose_name_plural = "identities"
        constraints = [
            id_check("identities", "idn"),
            choice_check("identities", "status", IdentityStatus),
            models.CheckConstraint(
                condition=Q(pause_reason__isnull=True)
                | Q(pause_reason__in=PauseReason.values),
                name="identities_pause_reason_known",
            ),
            models.CheckConstraint(
                condition=Q(display_name__regex=r"^[^\r\n]{1,78}$"),
                name="identities_display_name_form",
            ),
            models.UniqueConstraint(
                fields=["tenant", "client_id"],
                condition=Q(client_id__isnull=False),
                name="identities_client_id_unique",
            ),
            models.UniqueConstraint(
                fields=["tenant", "username"],
                condition=~Q(status=IdentityStatus.DELETED),
                name="identities_username_unique",
            ),
            models.UniqueConstraint(
                fields=["is_system"],
                condition=Q(is_system=True),
                name="identities_one_system",
            ),
        ]
        indexes = [
            models.Index(fields=["tenant", "status"], name="identities_tenant_status")
        ]

    def __str__(self) -> str:
        return self.username


class Mailbox(models.Model):
    """The one-writer row of an identity's mail: whoever changes it locks this first.

    Its counters number threads and events; they never go back.
    """

    identity = models.OneToOneField(
        Identity, models.PROTECT, primary_key=True, related_name="mailbox"
    )
    tenant = models.ForeignKey(Tenant, models.PROTECT, related_name="+")
    next_thread_seq = models.BigIntegerField(db_default=1)
    next_event_seq = models.BigIntegerField(db_default=1)

    class Meta:
        db_table = "mailbox_state"
        verbose_name_plural = "mailboxes"

    def __str__(self) -> str:
        return self.identity_id


class Address(models.Model):
    """An address of an identity; a retired one keeps its row for ever."""

    id = models.CharField(max_length=ID_LENGTH, primary_key=True)
    address = models.CharField(max_length=254, unique=True)
    local_part = models.CharField(max_length=64)
    domain = models.ForeignKey(
        "domains.Domain", models.PROTECT, related_name="addresses"
    )
    tenant = models.ForeignKey(Tenant, models.PROTECT, related_name="+")
    identity = models.ForeignKey(Identity, models.PROTECT, related_name="addresses")
    role = models.TextField(choices=AddressRole)
    status = models.TextField(choices=AddressStatus)
    retire_at = models.DateTimeField(null=True, blank=True)
    retired_at = models.DateTimeField(null=True, blank=True)
    forwarding = models.TextField(null=True, blank=True)
    forwarding_checked_at = models.DateTimeField(null=True, blank=True)
    created_at = created_at()

    class Meta:
        db_table = "addresses"
        verbose_name_plural = "addresses"
        constraints = [
            id_check("addresses", "adr"),
            choice_check("addresses", "role", AddressRole),
            choice_check("addresses", "status", AddressStatus),
            models.CheckConstraint(
                condition=Q(forwarding__isnull=True)
                | Q(forwarding__in=["unverified", "ok", "failed"]),
                name="addresses_forwarding_known",
            ),
            models.UniqueConstraint(
                fields=["identity"],
                condition=Q(role=AddressRole.PRIMARY),
                name="addresses_one_primary",
            ),
            models.UniqueConstraint(
                fields=["identity", "domain"],
                condition=Q(status=AddressStatus.PENDING),
                name="addresses_one_pending",
            ),
        ]
        indexes = [
            models.Index(fields=["identity", "status"], name="addresses_identity"),
            models.Index(
                fields=["retire_at"],
                condition=Q(status=AddressStatus.RETIRING),
                name="addresses_retiring",
            ),
        ]

    def __str__(self) -> str:
        return self.address


class ApiKey(models.Model):
    """A key of the API: only a keyed hash of it is stored."""

    id = models.CharField(max_length=ID_LENGTH, primary_key=True)
    lookup = models.CharField(max_length=12, unique=True)
    hash = models.CharField(max_length=64)
    prev_hash = models.CharField(max_length=64, null=True, blank=True)
    prev_expires_at = models.DateTimeField(null=True, blank=True)
    name = models.TextField()
    level = models.TextField(choices=KeyLevel)
    tenant = models.ForeignKey(
        Tenant, models.PROTECT, null=True, blank=True, related_name="api_keys"
    )
    identity = models.ForeignKey(
        Identity, models.PROTECT, null=True, blank=True, related_name="api_keys"
    )
    mode = models.TextField(choices=TenantMode)
    permissions = models.JSONField(default=list)
    created_by_key_id = models.CharField(max_length=ID_LENGTH, null=True, blank=True)
    expires_at = models.DateTimeField(null=True, blank=True)
    revoked_at = models.DateTimeField(null=True, blank=True)
    last_used_at = models.DateTimeField(null=True, blank=True)
    created_at = created_at()

    class Meta:
        db_table = "api_keys"
        constraints = [
            id_check("api_keys", "key"),
            choice_check("api_keys", "mode", TenantMode),
            models.CheckConstraint(
                condition=Q(
                    level=KeyLevel.PLATFORM,
                    tenant__isnull=True,
                    identity__isnull=True,
                )
                | Q(
                    level=KeyLevel.TENANT,
                    tenant__isnull=False,
                    identity__isnull=True,
                )
                | Q(
                    level=KeyLevel.IDENTITY,
                    tenant__isnull=False,
                    identity__isnull=False,
                ),
                name="api_keys_level_scope",
            ),
        ]
        indexes = [models.Index(fields=["tenant"], name="api_keys_by_tenant")]

    def __str__(self) -> str:
        return self.name


class SigningKey(models.Model):
    """A key of the ring that signs thread tokens, links and cursors; sealed."""

    pk = models.CompositePrimaryKey("purpose", "kid")
    purpose = models.TextField(choices=KeyPurpose)
    kid = models.CharField(max_length=1)
    ciphertext = models.TextField()
    created_at = created_at()
    verify_until = models.DateTimeField(null=True, blank=True)

    class Meta:
        db_table = "signing_keys"
        constraints = [
            choice_check("signing_keys", "purpose", KeyPurpose),
            models.CheckConstraint(
                condition=Q(kid__regex=r"^[0-9a-hjkmnp-tv-z]$"),
                name="signing_keys_kid_form",
            ),
            models.UniqueConstraint(
                fields=["purpose"],
                condition=Q(verify_until__isnull=True),
                name="signing_keys_one_current",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.purpose}:{self.kid}"


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


class Event(models.Model):
    """The outbox: what clients are told, written with the change it tells of."""

    id = models.CharField(max_length=ID_LENGTH, primary_key=True)
    tenant = models.ForeignKey(
        Tenant, models.PROTECT, null=True, blank=True, related_name="+"
    )
    identity = models.ForeignKey(
        Identity, models.PROTECT, null=True, blank=True, related_name="+"
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
                fields=["occurred_at"],
                condition=Q(dispatched_at__isnull=True),
                name="events_undispatched",
            )
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
        ]

    def __str__(self) -> str:
        return f"{self.action} {self.target_id}"


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
