"""The ledger of idempotency keys."""

from django.db import models
from django.db.models import Q

from core.fields import ID_LENGTH, created_at
from mailboxes.statuses import Operation


class LedgerEntry(models.Model):
    """An accepted send and the answer it was given, under the hash of its key.

    It hangs on nothing: deleting a message, a thread or an identity leaves its keys
    until they expire, or a retry would send again.
    """

    pk = models.CompositePrimaryKey("identity_id", "key_hash")
    identity_id = models.CharField(max_length=ID_LENGTH)
    key_hash = models.CharField(max_length=64)
    tenant_id = models.CharField(max_length=ID_LENGTH)
    fingerprint = models.CharField(max_length=64)
    operation = models.TextField(choices=Operation)
    message_id = models.CharField(max_length=ID_LENGTH)
    response = models.JSONField()
    created_at = created_at()
    expires_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        db_table = "idempotency"
        verbose_name_plural = "ledger entries"
        constraints = [
            models.CheckConstraint(
                condition=Q(operation__in=Operation.values),
                name="idempotency_operation_known",
            ),
            models.CheckConstraint(
                condition=Q(key_hash__regex=r"^[0-9a-f]{64}$"),
                name="idempotency_key_hash_form",
            ),
        ]
        indexes = [
            models.Index(fields=["expires_at"], name="idempotency_by_expiry"),
            models.Index(fields=["message_id"], name="idempotency_by_message"),
        ]

    def __str__(self) -> str:
        return self.message_id
