"""Where mail comes from, and what became of each copy that was to be taken in."""

from django.db.models import TextChoices


class MailSource(TextChoices):
    """How a message got here."""

    LOOPBACK = "loopback"


class JobState(TextChoices):
    """What became of a copy; all but the first are final."""

    PENDING = "pending"
    RECEIVED = "received"
    DUPLICATE = "duplicate"
    DROPPED = "dropped"
