"""Reading what a copy that comes in depends on."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from django.conf import settings

from core import clock
from core.database import fetch_one
from core.hashing import address_hash
from domains.statuses import DomainKind, Inbound
from inbound.arrival import Destination, OwnAddress, base_of
from mailboxes.models import Address, Message, Tenant, Thread
from mailboxes.policy import effective_policy
from mailboxes.statuses import AddressStatus, IdentityStatus, TenantStatus
from mailboxes.thread_tokens import split_subaddress
from suppressions.filters import list_entries
from suppressions.statuses import ListKind

HEADER_LOOKUPS: Final = 50
"""Ids of a message's headers that are looked up, the nearest first."""

_SENDER: Final = """
SELECT coalesce((SELECT outbound_count > 0 FROM contacts
                  WHERE identity_id = %(identity)s AND address = %(address)s), false),
       ARRAY(SELECT kind FROM sender_lists
              WHERE tenant_id = %(tenant)s AND direction = 'receive'
                AND entry = ANY(%(entries)s::text[])),
       EXISTS (SELECT 1 FROM suppressions
                WHERE tenant_id = %(tenant)s AND address_hash = %(hash)s
                  AND (expires_at IS NULL
                       OR expires_at > clock_timestamp() + %(clock_offset)s)),
       (SELECT kind FROM domains
         WHERE name = split_part(%(address)s, '@', 2) AND state <> 'removed'
           AND (tenant_id = %(tenant)s OR kind = 'platform') LIMIT 1)
"""
_BY_IDS: Final = f"""
SELECT given.place, m.thread_pk
  FROM unnest(%(ids)s::text[]) WITH ORDINALITY AS given (id, place)
  CROSS JOIN LATERAL (
     SELECT thread_pk FROM (
       (SELECT 0 AS way, pk, thread_pk FROM messages
         WHERE identity_id = %(identity)s AND rfc_message_id = given.id
         ORDER BY pk DESC LIMIT 1)
       UNION ALL
       (SELECT 1, pk, thread_pk FROM messages
         WHERE identity_id = %(identity)s AND provider_message_id = given.id
           AND direction = 'outbound'
         ORDER BY pk DESC LIMIT 1)) AS either
     ORDER BY way LIMIT 1) AS m
 WHERE given.place <= {HEADER_LOOKUPS}
 ORDER BY given.place LIMIT 1
"""  # noqa: S608  constants only


@dataclass(frozen=True, slots=True)
class SenderFacts:
    """What the mailbox and its tenant know of whoever wrote."""

    was_written_to: bool
    is_allowed: bool
    is_blocked: bool
    is_suppressed: bool
    domain_kind: DomainKind | None


def destination_of(recipient: str) -> Destination | None:
    """Return the mailbox behind an envelope recipient; None if nobody has it."""
    base, detail = split_subaddress(recipient)
    found = (
        Address.objects.select_related("identity__tenant").filter(address=base).first()
    )
    if found is None:
        return None
    rows = Address.objects.filter(identity_id=found.identity_id)
    return Destination(
        identity_id=found.identity_id,
        tenant_id=found.tenant_id,
        address=base,
        detail=detail,
        identity_status=IdentityStatus(found.identity.status),
        tenant_status=TenantStatus(found.identity.tenant.status),
        suspended_at=found.identity.tenant.suspended_at,
        own=tuple(
            OwnAddress(
                row.address,
                AddressStatus(row.status),
                is_platform=row.domain.kind == DomainKind.PLATFORM,
                takes_forwarded=row.domain.inbound == Inbound.FORWARD,
            )
            for row in rows.select_related("domain")
        ),
    )


def holders_of(addresses: Iterable[str], *, tenant_id: str) -> dict[str, str]:
    """Return which identities of a tenant have these addresses, tags left out."""
    bases = {base_of(address) for address in addresses}
    found = Address.objects.filter(tenant_id=tenant_id, address__in=bases)
    return dict(found.values_list("address", "identity_id"))


def sender_facts(address: str, destination: Destination) -> SenderFacts:
    """Return what is known of a sender, in one statement; joins the caller's."""
    row = fetch_one(
        _SENDER,
        {
            "identity": destination.identity_id,
            "tenant": destination.tenant_id,
            "address": address,
            "entries": list(list_entries(address)),
            "hash": address_hash(address),
            "clock_offset": clock.offset,
        },
    )
    assert row is not None  # noqa: S101  a SELECT without FROM has one row
    was_written_to, kinds, is_suppressed, domain_kind = row
    return SenderFacts(
        was_written_to=was_written_to,
        is_allowed=ListKind.ALLOW in kinds,
        is_blocked=ListKind.BLOCK in kinds,
        is_suppressed=is_suppressed,
        domain_kind=DomainKind(domain_kind) if domain_kind else None,
    )


def thread_by_ids(identity_id: str, ids: Sequence[str]) -> Thread | None:
    """Return the thread of the first of these Message-IDs that the mailbox knows.

    The newest message of an id counts, in any status; ids that a provider gave to our
    own mail count after those in headers (mailboxes, section 3.2).
    """
    if not ids:
        return None
    row = fetch_one(_BY_IDS, {"identity": identity_id, "ids": list(ids)})
    return None if row is None else Thread.objects.get(key=row[1])


def takes_part(thread: Thread, address: str | None) -> bool:
    """Tell whether an address is a participant of a thread, or wrote one message."""
    if address is None:
        return False
    if any(party["address"] == address for party in thread.participants):
        return True
    return Message.objects.filter(thread=thread, from_address=address).exists()


def webhook_text_bytes(tenant_id: str) -> int:
    """Return how much of a message's text an event may hold, in bytes of UTF-8."""
    own = Tenant.objects.values_list("policy", flat=True).get(id=tenant_id)
    policy = effective_policy(settings.PM_DEFAULT_POLICY, own)
    return int(policy["webhook_text_bytes"])
