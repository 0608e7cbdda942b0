"""The tenant's own lists: who may be written to, or write, and who may not."""

from dataclasses import dataclass

from django.db import transaction
from django.db.models import QuerySet

from core.addresses import normalize_at, normalize_domain, placed_at
from core.database import execute
from core.errors import ListEntryNotFound
from core.hashing import pseudonym
from mailboxes.services import audit
from suppressions.models import SendListEntry
from suppressions.statuses import ListDirection, ListKind


@dataclass(frozen=True, slots=True)
class SendList:
    """One of a tenant's four lists."""

    tenant_id: str
    direction: ListDirection
    kind: ListKind

    def entries(self) -> QuerySet[SendListEntry]:
        """Return what stands on the list."""
        return SendListEntry.objects.filter(
            tenant_id=self.tenant_id, direction=self.direction, kind=self.kind
        )


def entry_form(raw: str) -> str:
    """Return ``user@domain`` or ``@domain`` in the form that recipients have.

    Raises AddressInvalid or AddressUnsupported at ``entry``.
    """
    trimmed = raw.strip(" ")
    if not trimmed.startswith("@"):
        return normalize_at(trimmed, "entry")
    with placed_at("entry"):
        return f"@{normalize_domain(trimmed[1:])}"


def find_entry(place: SendList, entry: str) -> SendListEntry:
    """Return an entry of a list; raises ListEntryNotFound."""
    found = place.entries().filter(entry=entry).first()
    if found is None:
        raise ListEntryNotFound("The list does not hold this entry.")
    return found


@transaction.atomic(durable=True)
def put_entry(
    place: SendList, entry: str, *, note: str | None, actor_key_id: str
) -> SendListEntry:
    """Put an entry on a list, or give the one that is there another note."""
    execute(
        # one statement: whoever takes the entry off comes before it or after it
        "INSERT INTO sender_lists (tenant_id, direction, kind, entry, note)"
        " VALUES (%(tenant)s, %(direction)s, %(kind)s, %(entry)s, %(note)s)"
        " ON CONFLICT (tenant_id, direction, kind, entry)"
        " DO UPDATE SET note = EXCLUDED.note",
        {
            "tenant": place.tenant_id,
            "direction": str(place.direction),
            "kind": str(place.kind),
            "entry": entry,
            "note": note,
        },
    )
    row = find_entry(place, entry)
    _audit("list_entry.put", place, entry, actor_key_id)
    return row


@transaction.atomic(durable=True)
def remove_entry(place: SendList, entry: str, *, actor_key_id: str) -> None:
    """Take an entry off a list; raises ListEntryNotFound."""
    removed, _ = place.entries().filter(entry=entry).delete()
    if not removed:
        raise ListEntryNotFound("The list does not hold this entry.")
    _audit("list_entry.delete", place, entry, actor_key_id)


def _audit(action: str, place: SendList, entry: str, actor_key_id: str) -> None:
    audit(
        action,
        tenant_id=place.tenant_id,
        target_type="list_entry",
        target_id=f"{place.direction}:{place.kind}:{pseudonym(entry)}",
        actor_key_id=actor_key_id,
    )
