"""The ledger of idempotency keys, and the breakers of the ways out."""

from django.db import models
from django.db.models import Q

from core.fields import ID_LENGTH, choice_check, created_at
from mailboxes.statuses import Operation, Provider


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


class Breaker(models.Model):
    """A way out that has left calls in doubt; no row means that it works.

    ``scope`` is a domain's id for a relay, and ``account`` for a provider whose one
    account carries every domain. Closed with a count below three, open from there on;
    ``probe_token`` is the claim that tries it.
    """

    pk = models.CompositePrimaryKey("provider", "scope")
    provider = models.TextField(choices=Provider)
    scope = models.CharField(max_length=ID_LENGTH)
    unknowns = models.IntegerField()
    openings = models.IntegerField()
    probe_at = models.DateTimeField(null=True, blank=True)
    probe_token = models.UUIDField(null=True, blank=True)

    class Meta:
        db_table = "transport_breakers"
        constraints = [
            choice_check("transport_breakers", "provider", Provider),
            models.CheckConstraint(
                condition=~Q(scope=""), name="transport_breakers_scope_given"
            ),
            models.CheckConstraint(
                condition=Q(unknowns__gte=1, openings__gte=0),
                name="transport_breakers_counts",
            ),
            models.CheckConstraint(
                condition=Q(openings=0, probe_at=None, probe_token=None)
                | Q(openings__gte=1, probe_at__isnull=False),
                name="transport_breakers_open_has_probe",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.provider} {self.scope}"


class ObjectSweep(models.Model):
    """Where a sweep of the object store goes on: past the last key that it looked at.

    Empty before its first run, and when it has come to the end.
    """

    name = models.TextField(primary_key=True)
    cursor = models.TextField(db_default="", blank=True)

    class Meta:
        db_table = "object_sweeps"

    def __str__(self) -> str:
        return self.name
