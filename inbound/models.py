"""Copies of mail that are to be taken into a mailbox: rows that are due."""

from django.db import models
from django.db.models import Q

from core.fields import ID_LENGTH, choice_check, created_at, id_check
from inbound.statuses import JobState, MailSource
from mailboxes.models import tenant_column


class InboundJob(models.Model):
    """One copy for one envelope recipient; the row is the queue.

    ``tenant`` is the sender's. The message that was sent is named and not referred to:
    deleting it must not take the copy along. ``message_id`` is the id that the received
    message will have, so that a second try writes the same objects.
    """

    id = models.CharField(max_length=ID_LENGTH, primary_key=True)
    tenant = tenant_column()
    source = models.TextField(choices=MailSource)
    source_message_id = models.CharField(max_length=ID_LENGTH)
    source_key = models.TextField()
    recipient = models.CharField(max_length=254)
    message_id = models.CharField(max_length=ID_LENGTH)
    state = models.TextField(choices=JobState, db_default=JobState.PENDING)
    reason = models.TextField(null=True, blank=True)
    due_at = models.DateTimeField(null=True, blank=True)
    rung_at = models.DateTimeField(null=True, blank=True)
    attempts = models.IntegerField(db_default=0)
    created_at = created_at()

    class Meta:
        db_table = "inbound_jobs"
        constraints = [
            id_check("inbound_jobs", "job"),
            id_check("inbound_jobs", "msg", "message_id"),
            choice_check("inbound_jobs", "source", MailSource),
            choice_check("inbound_jobs", "state", JobState),
            models.UniqueConstraint(
                fields=["source_message_id", "recipient"], name="inbound_jobs_once"
            ),
            models.CheckConstraint(
                condition=Q(state="pending", due_at__isnull=False)
                | (~Q(state="pending") & Q(due_at__isnull=True)),
                name="inbound_jobs_pending_is_due",
            ),
        ]
        indexes = [
            models.Index(
                fields=["due_at"],
                condition=Q(due_at__isnull=False),
                name="inbound_jobs_due",
            ),
            models.Index(
                fields=["rung_at"],
                condition=Q(rung_at__isnull=False, due_at__isnull=False),
                name="inbound_jobs_rung",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.source_message_id} to {self.message_id}"
