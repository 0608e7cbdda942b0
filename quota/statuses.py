"""What an allowance counts, and whether a plan limits it."""

from django.db.models import TextChoices


class Feature(TextChoices):
    """What an allowance counts (quota, part A3)."""

    SENDS = "sends"
    INBOXES = "inboxes"
    CUSTOM_DOMAINS = "custom_domains"
    STORAGE_GB = "storage_gb"


class BillingMode(TextChoices):
    """Whether a tenant's plan limits it (quota, part A2).

    Units are held and counted in every mode; only ``metered`` refuses.
    """

    METERED = "metered"
    EXEMPT = "exempt"
    DISABLED = "disabled"
