"""Who may send: tenants, identities and their addresses, keys."""

from __future__ import annotations

from typing import Any

from django.db import models
from django.db.models import Q

from core.fields import ID_LENGTH, choice_check, created_at, id_check, updated_at
from mailboxes.statuses import (
    AddressRole,
    AddressStatus,
    IdentityStatus,
    KeyLevel,
    KeyPurpose,
    PauseReason,
    TenantMode,
    TenantStatus,
    TombstoneReason,
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
    next_event_seq = models.BigIntegerField(db_default=1)
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
            models.Index(fields=["tenant", "status"], name="identities_tenant_status"),
            models.Index(
                fields=["tenant", "created_at", "id"], name="identities_by_time"
            ),
            models.Index(fields=["created_at", "id"], name="identities_of_all_by_time"),
        ]

    def __str__(self) -> str:
        return self.username


class Mailbox(models.Model):
    """The one-writer row of an identity's mail: whoever changes it locks this first.

    Its counters number threads and events; they never go back. It is closed by the
    deletion of its identity: no send is accepted after that.
    """

    identity = models.OneToOneField(
        Identity, models.PROTECT, primary_key=True, related_name="mailbox"
    )
    tenant = models.ForeignKey(Tenant, models.PROTECT, related_name="+")
    next_thread_seq = models.BigIntegerField(db_default=1)
    next_event_seq = models.BigIntegerField(db_default=1)
    is_closed = models.BooleanField(db_default=False)

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


class AddressTombstone(models.Model):
    """An address that is gone for good: nobody else may ever have it."""

    address_hash = models.CharField(max_length=64, primary_key=True)
    identity_id = models.CharField(max_length=ID_LENGTH, null=True, blank=True)
    reason = models.TextField(choices=TombstoneReason)
    created_at = created_at()

    class Meta:
        db_table = "address_tombstones"
        constraints = [
            choice_check("address_tombstones", "reason", TombstoneReason),
            models.CheckConstraint(
                condition=Q(address_hash__regex=r"^[0-9a-f]{64}$"),
                name="address_tombstones_hash_form",
            ),
        ]

    def __str__(self) -> str:
        return self.address_hash


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
        indexes = [
            models.Index(fields=["tenant", "created_at", "id"], name="api_keys_by_time")
        ]

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


def tenant_column() -> models.ForeignKey[Any, Any]:
    """Return the tenant column of a row whose parent row already pins its tenant.

    Scope is asked of this column; the database checks the parent's key alone.
    """
    return models.ForeignKey(
        Tenant, models.PROTECT, related_name="+", db_constraint=False, db_index=False
    )
