"""The address whose copy of a mail tells its Message-ID (mailboxes, section 4.5)."""

from django.conf import settings

from core.ids import ulid_of
from mailboxes.models import Message


def journal_address(message: Message) -> str:
    """Return the address that a hidden copy of this message goes to."""
    detail = f"{ulid_of(message.public_id)}.{ulid_of(message.identity_id)}"
    return f"journal+{detail}@{settings.PM_PLATFORM_DOMAIN}"


def is_journal(address: str) -> bool:
    """Tell whether a normalised address is a journal's: no recipient of any message."""
    local, _, domain = address.rpartition("@")
    return local.startswith("journal+") and domain == settings.PM_PLATFORM_DOMAIN
