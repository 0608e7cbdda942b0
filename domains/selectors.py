"""Domains as those see them who choose one to send from."""

from django.db.models import Q

from core.database import Row, fetch_one
from core.ids import is_id
from domains.errors import DomainNotFound
from domains.models import Domain
from domains.statuses import GONE, READY, DomainKind, DomainState
from mailboxes.address_rules import SendingDomain


def tenant_domain(domain_id: str, *, tenant_id: str) -> SendingDomain:
    """Return a tenant's own domain, which keeps its state until the transaction ends.

    Whoever makes it ready activates the addresses that wait for it: one that is added
    meanwhile is not missed. Raises DomainNotFound alike for missing and foreign.
    """
    row = _row(domain_id) if is_id(domain_id, "dom") else None
    if row is None or row[2] != tenant_id or row[4] in GONE:
        raise DomainNotFound("No such domain.")
    return _seen(row)


def seen_domain_name(domain_id: str, *, tenant_id: str) -> str:
    """Return the name of a domain that a tenant's mail has left under, gone or not.

    Its own, or the platform's. Raises DomainNotFound alike for missing and foreign.
    """
    found = Domain.objects.filter(
        Q(tenant_id=tenant_id) | Q(kind=DomainKind.PLATFORM), id=domain_id
    )
    name = found.values_list("name", flat=True).first()
    if name is None:
        raise DomainNotFound("No such domain.")
    return name


def domain_of_address(domain_id: str) -> SendingDomain:
    """Return the domain of an address, which keeps its state as above."""
    row = _row(domain_id)
    assert row is not None  # noqa: S101  a domain with addresses keeps its row
    return _seen(row)


def seen_by_addresses(domain: Domain) -> SendingDomain:
    """Return a domain, already read, as addresses see it."""
    return _seen((domain.id, domain.name, domain.tenant_id, domain.kind, domain.state))


def _row(domain_id: str) -> Row | None:
    return fetch_one(
        "SELECT id, name, tenant_id, kind, state FROM domains WHERE id = %(id)s"
        " FOR SHARE",
        {"id": domain_id},
    )


def _seen(row: Row) -> SendingDomain:
    return SendingDomain(
        id=row[0],
        name=row[1],
        is_platform=row[3] == DomainKind.PLATFORM,
        is_ready=DomainState(row[4]) in READY,
    )
