"""What members of the staff may do, beside looking."""

from django.db.models import TextChoices

APP = "staff"


class Duty(TextChoices):
    """A permission of the admin that is no view of one table.

    The value is the codename of a permission of this app, the label what it is called
    where an account is edited.
    """

    READ_MAIL = "read_mail", "Can read the content of mail"
    RESOLVE = "resolve_message", "Can settle uncertain sends, and cancel queued ones"
    SUPPRESS = "change_suppressions", "Can lift suppressions and change send lists"
    PAUSE = "pause_identity", "Can pause and resume identities"
    DOMAINS = "manage_domain", "Can check domains and change their credentials"
    WEBHOOKS = "manage_webhook", "Can change, test and replay webhooks"
    ALERTS = "close_alert", "Can close alerts"
    TENANTS = "manage_tenant", "Can suspend tenants and change policies and plans"
    KEYS = "manage_key", "Can make, rotate and revoke API keys"

    @property
    def permission(self) -> str:
        """Return it as ``has_perm`` takes it."""
        return f"{APP}.{self.value}"


class SettlementState(TextChoices):
    """How far a settlement of many sends has come."""

    PREVIEW = "preview"
    RUNNING = "running"
    DONE = "done"
