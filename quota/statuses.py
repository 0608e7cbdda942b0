"""What an allowance counts, whether a plan limits it, and what is counted per day."""

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


class Metric(TextChoices):
    """What is counted of a tenant per day in UTC (outbound tables, section 10)."""

    INBOUND = "inbound"
    OUTBOUND = "outbound"
    SENDS = "sends"
    STORAGE_BYTES = "storage_bytes"
