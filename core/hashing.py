"""Keyed hashes of addresses: how they are matched and logged without being stored."""

from django.conf import settings

from core.sealing import keyed_hash


def address_hash(address: str) -> str:
    """Return H(address) of a normalised address, in hex (mailboxes, section 0)."""
    return keyed_hash(settings.PM_HASH_KEY, address)


def pseudonym(address: str) -> str:
    """Return what stands for an address in a log line, e.g. ``ph_0f3a…``."""
    return pseudonym_of(address_hash(address))


def pseudonym_of(digest: str) -> str:
    """Return what stands for the address that has this hash."""
    return f"ph_{digest[:16]}"
