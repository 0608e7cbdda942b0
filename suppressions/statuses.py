"""Why an address is suppressed, and what a list entry says."""

from django.db.models import TextChoices


class SuppressionReason(TextChoices):
    """Why an address is suppressed."""

    HARD_BOUNCE = "hard_bounce"
    COMPLAINT = "complaint"
    UNSUBSCRIBE = "unsubscribe"
    MANUAL = "manual"
    PROVIDER = "provider"


class ListDirection(TextChoices):
    """Which way the entry counts."""

    RECEIVE = "receive"
    SEND = "send"


class ListKind(TextChoices):
    """Block beats allow."""

    ALLOW = "allow"
    BLOCK = "block"
