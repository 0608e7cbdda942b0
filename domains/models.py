"""Sending domains."""

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from core.fields import ID_LENGTH, choice_check, created_at, id_check, updated_at
from domains.statuses import (
    DomainKind,
    DomainState,
    Inbound,
    Method,
    ReplyToken,
    Transport,
)
from mailboxes.models import Tenant


class Domain(models.Model):
    """A domain that identities send from; one of them is the platform's own."""

    id = models.CharField(max_length=ID_LENGTH, primary_key=True)
    tenant = models.ForeignKey(
        Tenant, models.PROTECT, null=True, blank=True, related_name="domains"
    )
    name = models.CharField(max_length=253)
    kind = models.TextField(choices=DomainKind)
    method = models.TextField(choices=Method)
    is_apex = models.BooleanField(db_default=False)
    inbound = models.TextField(choices=Inbound)
    transport = models.TextField(choices=Transport)
    reply_token = models.TextField(choices=ReplyToken)
    receiving = models.BooleanField(db_default=True)
    sending = models.BooleanField(db_default=True)
    state = models.TextField(choices=DomainState)
    state_reason = models.TextField(null=True, blank=True)
    state_changed_at = models.DateTimeField(db_default=Now())
    failing_since = models.DateTimeField(null=True, blank=True)
    both_error_since = models.DateTimeField(null=True, blank=True)
    candidate = models.TextField(null=True, blank=True)
    candidate_count = models.IntegerField(db_default=0)
    ownership_token = models.TextField(null=True, blank=True)
    ownership_verified_at = models.DateTimeField(null=True, blank=True)
    expected_ns = models.JSONField(null=True, blank=True)
    rdap_fingerprint = models.TextField(null=True, blank=True)
    rdap_pending = models.JSONField(null=True, blank=True)
    records = models.JSONField(default=list, db_default=[])
    issues = models.JSONField(default=list, db_default=[])
    provider_objects = models.JSONField(default=dict, db_default={})
    event_feed_id = models.TextField(null=True, blank=True)
    ses_identity = models.TextField(null=True, blank=True)
    ses_region = models.TextField(null=True, blank=True)
    mail_from_domain = models.TextField(null=True, blank=True)
    smtp_sealed = models.TextField(null=True, blank=True)
    smtp_pending_sealed = models.TextField(null=True, blank=True)
    relay_ca = models.TextField(null=True, blank=True)
    probe_last_at = models.DateTimeField(null=True, blank=True)
    probe_last = models.JSONField(null=True, blank=True)
    reminders_sent = models.JSONField(default=list, db_default=[])
    next_check_at = models.DateTimeField(db_default=Now())
    next_ownership_at = models.DateTimeField(db_default=Now())
    created_at = created_at()
    updated_at = updated_at()

    class Meta:
        db_table = "domains"
        constraints = [
            id_check("domains", "dom"),
            choice_check("domains", "kind", DomainKind),
            choice_check("domains", "method", Method),
            choice_check("domains", "inbound", Inbound),
            choice_check("domains", "transport", Transport),
            choice_check("domains", "reply_token", ReplyToken),
            choice_check("domains", "state", DomainState),
            models.UniqueConstraint(
                fields=["name"],
                condition=~Q(state=DomainState.REMOVED),
                name="domains_name_unique",
            ),
            models.UniqueConstraint(
                fields=["kind"],
                condition=Q(kind=DomainKind.PLATFORM),
                name="domains_one_platform",
            ),
            models.CheckConstraint(
                condition=Q(kind=DomainKind.PLATFORM, tenant__isnull=True)
                | Q(kind=DomainKind.EXTERNAL, tenant__isnull=False),
                name="domains_platform_has_no_tenant",
            ),
        ]
        indexes = [
            models.Index(fields=["tenant", "state"], name="domains_by_tenant"),
            models.Index(fields=["next_check_at"], name="domains_by_next_check"),
        ]

    def __str__(self) -> str:
        return self.name
