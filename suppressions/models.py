"""Addresses that must not be mailed, and the tenant's own lists."""

from django.db import models

from core.fields import ID_LENGTH, choice_check, created_at
from mailboxes.models import Tenant
from suppressions.statuses import ListDirection, ListKind, SuppressionReason


class Suppression(models.Model):
    """An address that must not be mailed, as a keyed hash and a masked hint."""

    tenant = models.ForeignKey(Tenant, models.PROTECT, related_name="suppressions")
    address_hash = models.CharField(max_length=64)
    address_hint = models.TextField()
    reason = models.TextField(choices=SuppressionReason)
    source_message_id = models.CharField(max_length=ID_LENGTH, null=True, blank=True)
    note = models.TextField(null=True, blank=True)
    created_at = created_at()
    expires_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        db_table = "suppressions"
        constraints = [
            choice_check("suppressions", "reason", SuppressionReason),
            models.UniqueConstraint(
                fields=["tenant", "address_hash"], name="suppressions_once"
            ),
        ]
        indexes = [
            models.Index(
                fields=["tenant", "created_at", "id"], name="suppressions_by_time"
            ),
            models.Index(
                fields=["tenant", "reason", "created_at", "id"],
                name="suppressions_by_reason",
            ),
        ]

    def __str__(self) -> str:
        return self.address_hint


class SendListEntry(models.Model):
    """An allow or block entry, for one address or a whole domain."""

    tenant = models.ForeignKey(Tenant, models.PROTECT, related_name="list_entries")
    direction = models.TextField(choices=ListDirection)
    kind = models.TextField(choices=ListKind)
    entry = models.CharField(max_length=255)
    note = models.TextField(null=True, blank=True)
    created_at = created_at()

    class Meta:
        db_table = "sender_lists"
        verbose_name_plural = "send list entries"
        constraints = [
            choice_check("sender_lists", "direction", ListDirection),
            choice_check("sender_lists", "kind", ListKind),
            models.UniqueConstraint(
                fields=["tenant", "direction", "kind", "entry"],
                name="sender_lists_once",
            ),
        ]
        indexes = [
            models.Index(
                fields=["tenant", "direction", "kind", "created_at", "id"],
                name="sender_lists_by_time",
            ),
        ]

    def __str__(self) -> str:
        return self.entry
