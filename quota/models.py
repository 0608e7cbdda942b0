"""What a tenant may still send, and what became of what its identities sent."""

from typing import Final

from django.db import models
from django.db.models import F, Q

from core.fields import ID_LENGTH, choice_check, created_at, id_check
from mailboxes.models import Identity, Tenant, tenant_column
from quota.statuses import BillingMode, Feature, Metric
from quota.windows import Outcome

_MONTH: Final = "date_trunc('month', now(), 'UTC')"
_NEXT_MONTH: Final = f"date_trunc('month', {_MONTH} + interval '32 days', 'UTC')"


class QuotaAccount(models.Model):
    """One row a tenant, whose lock serialises the tenant's quota work; taken last.

    ``topups`` holds how many were bought, by feature; ``catalog_hash`` the catalogue
    that the tenant's allowances were last granted by; ``usage_rolled_at`` when its
    usage was last written to ``usage_daily``; ``past_due_since`` when a payment should
    have come, until it has.
    """

    tenant = models.OneToOneField(
        Tenant, models.PROTECT, primary_key=True, related_name="quota_account"
    )
    mode = models.TextField(choices=BillingMode, db_default=BillingMode.EXEMPT)
    plan_id = models.CharField(max_length=32, db_default="free")
    topups = models.JSONField(db_default={})
    catalog_hash = models.CharField(max_length=64, db_default="", blank=True)
    period_start = models.DateTimeField(db_default=models.Func(template=_MONTH))
    period_end = models.DateTimeField(db_default=models.Func(template=_NEXT_MONTH))
    usage_rolled_at = models.DateTimeField(null=True, blank=True)
    past_due_since = models.DateTimeField(null=True, blank=True)
    created_at = created_at()

    class Meta:
        db_table = "quota_accounts"
        constraints = [
            choice_check("quota_accounts", "mode", BillingMode),
            models.CheckConstraint(
                condition=Q(period_start__lt=F("period_end")),
                name="quota_accounts_period_goes_on",
            ),
        ]
        indexes = [models.Index(fields=["period_end"], name="accounts_by_period_end")]

    def __str__(self) -> str:
        return self.tenant_id


class Allowance(models.Model):
    """How much of a feature a tenant has, holds and has used; NULL is unlimited.

    ``limit_marked_for`` is the period in which a refusal was last announced. Of what is
    counted, ``stale`` says that ``used`` is not known to agree with the rows: from the
    start, and once a hold has run out.
    """

    pk = models.CompositePrimaryKey("tenant", "feature")
    tenant = models.ForeignKey(Tenant, models.PROTECT, related_name="allowances")
    feature = models.TextField(choices=Feature)
    granted = models.BigIntegerField(null=True, blank=True)
    used = models.BigIntegerField(db_default=0)
    held = models.BigIntegerField(db_default=0)
    stale = models.BooleanField(db_default=True)
    limit_marked_for = models.DateTimeField(null=True, blank=True)

    class Meta:
        db_table = "allowances"
        constraints = [
            choice_check("allowances", "feature", Feature),
            models.CheckConstraint(
                condition=Q(used__gte=0) & Q(held__gte=0),
                name="allowances_not_negative",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.tenant_id} {self.feature}"


class Hold(models.Model):
    """Quota set aside: for one send until its outcome is known, or for what is made.

    ``ref`` is the id of the message, or of what is being made.
    ``identity_id``, ``day`` and ``tenant_counted`` say what the send took of the daily
    caps, so that exactly that can be given back.
    """

    id = models.CharField(max_length=ID_LENGTH, primary_key=True)
    tenant = models.ForeignKey(Tenant, models.PROTECT, related_name="holds")
    feature = models.TextField(choices=Feature)
    ref = models.TextField()
    units = models.IntegerField()
    expires_at = models.DateTimeField()
    identity_id = models.CharField(max_length=ID_LENGTH, null=True, blank=True)
    day = models.DateField(null=True, blank=True)
    tenant_counted = models.BooleanField(db_default=False)
    created_at = created_at()

    class Meta:
        db_table = "holds"
        constraints = [
            id_check("holds", "hld"),
            choice_check("holds", "feature", Feature),
            models.CheckConstraint(condition=Q(units__gt=0), name="holds_some_units"),
            models.UniqueConstraint(
                fields=["tenant", "feature", "ref"], name="holds_once"
            ),
        ]
        indexes = [models.Index(fields=["expires_at"], name="holds_by_expiry")]

    def __str__(self) -> str:
        return self.ref


class Counter(models.Model):
    """A count of a tenant in one stretch of time.

    Daily caps count per day of the tenant's zone, usage per day in UTC; ``warned:``
    marks say what has been told.
    """

    pk = models.CompositePrimaryKey("tenant", "metric", "bucket")
    tenant = models.ForeignKey(
        Tenant, models.PROTECT, related_name="counters", db_index=False
    )
    metric = models.TextField()
    bucket = models.CharField(max_length=13)
    value = models.BigIntegerField(db_default=0)

    class Meta:
        db_table = "counters"
        constraints = [
            models.CheckConstraint(
                condition=Q(value__gte=0), name="counters_not_negative"
            ),
            models.CheckConstraint(
                condition=Q(bucket__regex=r"^\d{4}-\d{2}-\d{2}(T\d{2})?$"),
                name="counters_bucket_form",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.metric} {self.bucket}"


class UsageDay(models.Model):
    """What a tenant used on a day in UTC; kept for 92 days."""

    pk = models.CompositePrimaryKey("tenant", "day", "metric")
    tenant = models.ForeignKey(
        Tenant, models.PROTECT, related_name="usage", db_index=False
    )
    day = models.DateField()
    metric = models.TextField(choices=Metric)
    value = models.BigIntegerField()

    class Meta:
        db_table = "usage_daily"
        constraints = [
            choice_check("usage_daily", "metric", Metric),
            models.CheckConstraint(
                condition=Q(value__gte=0), name="usage_daily_not_negative"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.metric} {self.day}"


class RecentOutcome(models.Model):
    """One of the latest outcomes of an identity's mail, by which it is judged.

    ``event_hash`` stands for the event that told of it: told again, it counts once. One
    that ``is_judged`` belongs to a pause for abuse, and leads to no other.
    """

    seq = models.BigAutoField(primary_key=True)
    tenant = tenant_column()
    identity = models.ForeignKey(
        Identity, models.PROTECT, related_name="+", db_index=False
    )
    event_hash = models.CharField(max_length=64)
    outcome = models.TextField(choices=Outcome)
    is_judged = models.BooleanField(db_default=False)
    at = models.DateTimeField()

    class Meta:
        db_table = "outcomes"
        constraints = [
            choice_check("outcomes", "outcome", Outcome),
            models.CheckConstraint(
                condition=Q(event_hash__regex=r"^[0-9a-f]{64}$"),
                name="outcomes_event_hash_form",
            ),
            models.UniqueConstraint(
                fields=["identity", "event_hash"], name="outcomes_once"
            ),
        ]
        indexes = [models.Index(fields=["identity", "seq"], name="outcomes_by_age")]

    def __str__(self) -> str:
        return f"{self.identity_id} {self.outcome}"
