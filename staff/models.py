"""The work of the staff that takes more than one request."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Q

from core.fields import ID_LENGTH, choice_check, created_at, id_check
from staff.statuses import Duty, SettlementState


def _key_array() -> ArrayField[Any, Any]:
    return ArrayField(models.BigIntegerField(), default=list, db_default=[], blank=True)


class Settlement(models.Model):
    """One answer to many uncertain sends, given by a person, batch by batch.

    ``keys`` are the messages that it is for, as the preview found them, by ticks or by
    the ``filter``; it settles only what was in doubt at ``until`` already. ``cursor``
    is the last of them that was looked at. The other two lists name those that it left
    alone: an event was faster, or something else has changed.
    """

    id = models.CharField(max_length=ID_LENGTH, primary_key=True)
    user = models.ForeignKey(settings.AUTH_USER_MODEL, models.PROTECT, related_name="+")
    state = models.TextField(
        choices=SettlementState, db_default=SettlementState.PREVIEW
    )
    outcome = models.TextField(null=True, blank=True)
    reason = models.TextField(db_default="", blank=True)
    keys = _key_array()
    filter = models.JSONField(default=dict, db_default={}, blank=True)
    until = models.DateTimeField()
    cursor = models.BigIntegerField(db_default=0)
    settled = models.IntegerField(db_default=0)
    overtaken = _key_array()
    changed = _key_array()
    created_at = created_at()
    started_at = models.DateTimeField(null=True, blank=True)
    finished_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        db_table = "staff_settlements"
        default_permissions = ("view",)
        permissions = [(duty.value, duty.label) for duty in Duty]
        constraints = [
            id_check("staff_settlements", "stl"),
            choice_check("staff_settlements", "state", SettlementState),
            models.CheckConstraint(
                condition=Q(outcome__in=["sent", "not_sent"])
                | Q(outcome__isnull=True, state="preview"),
                name="staff_settlements_run_with_an_answer",
            ),
        ]
        indexes = [models.Index(fields=["created_at"], name="staff_settlements_time")]

    def __str__(self) -> str:
        return self.id
