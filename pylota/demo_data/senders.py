"""Tenants, domains, identities, addresses and keys, and to whom each of them writes."""

import base64
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final
from zoneinfo import ZoneInfo

from django.conf import settings

from core.addresses import domain_of, org_domain
from core.sealing import Place, sealer
from domains.models import Domain
from domains.relay import RelaySettings
from domains.services import ensure_platform_domain
from domains.statuses import DomainKind, Inbound, ReplyToken, Transport
from mailboxes.keys import draw as draw_key
from mailboxes.keys import hash_key
from mailboxes.models import Address, ApiKey, Identity, Mailbox, Tenant
from mailboxes.scopes import allowed_at
from mailboxes.statuses import (
    AddressRole,
    AddressStatus,
    IdentityStatus,
    KeyLevel,
    PauseReason,
    Provider,
    TenantMode,
    TenantStatus,
)
from mailboxes.usernames import fold
from pylota.demo_data.draw import Draw
from pylota.demo_data.shapes import (
    DAYS,
    FIRST,
    HOSTS,
    LAST,
    LONGEST_ADDRESS,
    PAUSED,
    RIGHT_TO_LEFT,
    TENANTS,
    DomainShape,
    TenantShape,
)
from quota.provisioning import open_account

CIRCLE: Final = 150
"""People that one identity writes to."""

RELAY: Final = RelaySettings(
    host="relay.example.net",
    port=587,
    username="demo",
    password="open-to-nobody",  # noqa: S106  there is no such relay
)


@dataclass(slots=True)
class Thread:
    """A conversation while it grows."""

    pk: int
    id: str
    seq: int
    subject: str
    first_at: datetime
    last_at: datetime
    people: list[dict[str, Any]]
    count: int = 0
    unread: int = 0
    last_inbound_at: datetime | None = None
    last_outbound_at: datetime | None = None


@dataclass(slots=True)
class Sender:
    """An identity that writes, with its numbers, and whom it writes to."""

    tenant_id: str
    identity_id: str
    address: str
    name: str
    domain: str
    organisation: str
    provider: Provider
    zone: ZoneInfo
    circle: list[tuple[str, str]]
    weight: float
    is_stopped: bool
    next_event: int = 1
    threads: list[Thread] = field(default_factory=list)
    contacts: dict[str, list[Any]] = field(default_factory=dict)


def make_senders(draw: Draw) -> list[Sender]:
    """Make every tenant with what belongs to it; joins the caller's transaction."""
    platform = ensure_platform_domain()
    began = draw.now - timedelta(days=DAYS + 30)
    found = []
    for shape in TENANTS:
        tenant = _tenant(shape, draw.id("ten", began), began)
        own = _domain(shape.domain, tenant, draw, began) if shape.domain else None
        for n, user in enumerate(shape.users):
            identity = _identity(shape, tenant, user, draw, began)
            addresses = _addresses(identity, own, platform, draw, began)
            _key(f"{user} in production", draw, began, identity=identity)
            found.append(_sender(shape, n, identity, addresses, draw))
        for name in ("production", "migration of last year", "dashboards"):
            _key(name, draw, began, tenant=tenant)
    return found


def _tenant(shape: TenantShape, tenant_id: str, at: datetime) -> Tenant:
    suffix = f".{shape.slug}"
    stopped = shape.suspended
    tenant = Tenant.objects.create(
        id=tenant_id,
        slug=shape.slug,
        name=shape.name,
        mode=shape.mode,
        status=TenantStatus.SUSPENDED if stopped else TenantStatus.ACTIVE,
        suspended_at=at + timedelta(days=DAYS + 27) if stopped else None,
        address_suffix=suffix,
        suffix_fold=fold(suffix),
        timezone=shape.timezone,
        created_at=at,
    )
    open_account(tenant.id, is_own=True)
    return tenant


def _domain(shape: DomainShape, tenant: Tenant, draw: Draw, at: datetime) -> Domain:
    domain_id = draw.id("dom", at)
    since = draw.now - timedelta(hours=5) if shape.issue else at
    place = Place("domains", "smtp_sealed", domain_id)
    is_relay = shape.transport == Transport.SMTP
    return Domain.objects.create(
        id=domain_id,
        tenant=tenant,
        name=shape.name,
        kind=DomainKind.EXTERNAL,
        method=shape.method,
        inbound=Inbound.FORWARD,
        transport=shape.transport,
        reply_token=ReplyToken.NONE,
        state=shape.state,
        state_reason=shape.issue,
        state_changed_at=since,
        failing_since=since if shape.issue else None,
        ownership_verified_at=at,
        records=_records(shape.name),
        issues=[_issue(shape.issue, since)] if shape.issue else [],
        smtp_sealed=sealer().seal(RELAY.to_json(), place=place) if is_relay else None,
        created_at=at,
    )


def _issue(code: str, at: datetime) -> dict[str, str]:
    return {"code": code, "source": "dns", "seen_at": at.isoformat()}


def _records(name: str) -> list[dict[str, Any]]:
    return [
        {"type": "TXT", "name": f"_pylota.{name}", "value": "pylota-verification=demo"},
        {
            "type": "CNAME",
            "name": f"k1._domainkey.{name}",
            "value": f"k1.dkim.{settings.PM_PLATFORM_DOMAIN}",
        },
    ]


def _identity(
    shape: TenantShape, tenant: Tenant, user: str, draw: Draw, at: datetime
) -> Identity:
    paused = PauseReason.TENANT_SUSPENDED if shape.suspended else PAUSED.get(user)
    name = RIGHT_TO_LEFT if shape.slug == "demo-nour" else f"{shape.name} {user}"
    identity = Identity.objects.create(
        id=draw.id("idn", at),
        tenant=tenant,
        username=user,
        display_name=name,
        owner_name="Ada Owner",
        owner_email="ada@example.com",
        status=IdentityStatus.PAUSED if paused else IdentityStatus.ACTIVE,
        pause_reason=paused,
        created_at=at,
    )
    Mailbox.objects.create(identity=identity, tenant=tenant)
    return identity


def _addresses(
    identity: Identity, own: Domain | None, platform: Domain, draw: Draw, at: datetime
) -> list[Address]:
    """Return its addresses, the primary first; the platform's is its own for life."""
    suffix = identity.tenant.address_suffix
    names = [(f"{identity.username}{suffix}", platform)]
    if own is not None:
        names.insert(0, (identity.username, own))
    return [
        Address.objects.create(
            id=draw.id("adr", at),
            address=f"{local}@{domain.name}",
            local_part=local,
            domain=domain,
            tenant=identity.tenant,
            identity=identity,
            role=AddressRole.ALIAS if n else AddressRole.PRIMARY,
            status=AddressStatus.ACTIVE,
            created_at=at,
        )
        for n, (local, domain) in enumerate(names)
    ]


def _key(
    name: str,
    draw: Draw,
    at: datetime,
    *,
    tenant: Tenant | None = None,
    identity: Identity | None = None,
) -> None:
    """Store a key whose secret nobody has ever seen."""
    owner = identity.tenant if identity is not None else tenant
    level = KeyLevel.IDENTITY if identity is not None else KeyLevel.TENANT
    mode = TenantMode(owner.mode) if owner is not None else TenantMode.LIVE
    drawn = draw_key(mode)
    is_old = name.startswith("migration")
    ApiKey.objects.create(
        id=draw.id("key", at),
        lookup=drawn.lookup,
        hash=hash_key(settings.PM_KEY_PEPPER, drawn.text),
        name=name,
        level=level,
        tenant=owner,
        identity=identity,
        mode=mode,
        permissions=sorted(str(scope) for scope in allowed_at(level)),
        revoked_at=at + timedelta(days=DAYS) if is_old else None,
        last_used_at=None if is_old else draw.before_now(600),
        created_at=at,
    )


def _sender(
    shape: TenantShape, n: int, identity: Identity, addresses: list[Address], draw: Draw
) -> Sender:
    domain = domain_of(addresses[0].address)
    provider = Provider(shape.domain.transport) if shape.domain else Provider.SIMULATOR
    return Sender(
        tenant_id=identity.tenant_id,
        identity_id=identity.id,
        address=addresses[0].address,
        name=identity.display_name,
        domain=domain,
        organisation=org_domain(domain),
        provider=provider,
        zone=ZoneInfo(shape.timezone),
        circle=_circle(draw, is_test=shape.mode == TenantMode.TEST),
        weight=shape.weight / (n + 1),
        is_stopped=identity.status == IdentityStatus.PAUSED,
    )


def _circle(draw: Draw, *, is_test: bool) -> list[tuple[str, str]]:
    """Return the people that one identity writes to, one with the longest address."""
    if is_test:
        return [(f"{word}@simulator.invalid", "") for word in ("ok", "slow", "later")]
    people = []
    for n in range(CIRCLE):
        first, last = draw.one_of(FIRST), draw.one_of(LAST)
        address = f"{first}.{last}.{n}@{draw.one_of(HOSTS)}"
        people.append((address, f"{first.title()} {last.title()}"))
    return [*people, (LONGEST_ADDRESS, RIGHT_TO_LEFT)]


def webhook_secret(draw: Draw, endpoint_id: str) -> str:
    """Return a secret of an endpoint, sealed as the product seals it."""
    raw = base64.b64encode(draw.random.randbytes(32)).decode()
    place = Place("webhook_endpoints", "secret_enc", endpoint_id)
    return sealer().seal(f"whsec_{raw}".encode(), place=place)
