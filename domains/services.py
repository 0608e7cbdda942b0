"""The platform's domain, relay domains, and the relays that they submit to."""

from dataclasses import replace
from pathlib import Path

from django.conf import settings

from core.clock import database_now
from core.ids import new_id
from core.sealing import Place, sealer
from domains.errors import DomainExists
from domains.models import Domain
from domains.relay import RelaySettings, parse_relay_url
from domains.statuses import (
    DomainKind,
    DomainState,
    Inbound,
    Method,
    ReplyToken,
    Transport,
)


def ensure_platform_domain() -> Domain:
    """Return the row of the platform's own domain, made if there is none.

    Joins the caller's transaction. Its transport follows the deployment's setting.
    """
    transport = Transport(settings.PM_PLATFORM_TRANSPORT)
    domain, _ = Domain.objects.get_or_create(
        kind=DomainKind.PLATFORM,
        defaults={
            "id": new_id("dom"),
            "tenant": None,
            "name": settings.PM_PLATFORM_DOMAIN,
            "method": Method.PLATFORM,
            "inbound": Inbound.DIRECT,
            "transport": transport,
            "reply_token": ReplyToken.SUBADDRESS,
            "state": DomainState.HEALTHY,
        },
    )
    if domain.transport != transport:
        Domain.objects.filter(id=domain.id).update(
            transport=transport, updated_at=database_now()
        )
        domain.transport = transport
    return domain


def ensure_relay_domain(
    tenant_id: str, name: str, relay: RelaySettings | None, *, proved: bool
) -> Domain:
    """Return the tenant's relay domain, made if there is none; keep a given relay.

    Joins the caller's transaction. ``proved`` takes the domain, and credentials that
    replace others, as checked: in the local environment only. Otherwise a new domain
    is ``pending``, and new credentials wait beside the live ones for a probe. Raises
    DomainExists if another tenant holds the name, ValueError if a new domain comes
    without a relay.
    """
    found = Domain.objects.filter(name=name).exclude(state=DomainState.REMOVED).first()
    if found is None:
        if relay is None:
            raise ValueError("a new domain needs a relay")
        return _create_relay_domain(tenant_id, name, relay, proved=proved)
    if found.tenant_id != tenant_id or found.method != Method.SMTP_RELAY:
        raise DomainExists(f"{name} cannot be added")
    if relay is not None and relay != relay_of(found):
        column = "smtp_sealed" if proved else "smtp_pending_sealed"
        sealed = _seal(found.id, column, relay)
        Domain.objects.filter(id=found.id).update(
            **{column: sealed, "updated_at": database_now()}
        )
        found.refresh_from_db()
    return found


def _create_relay_domain(
    tenant_id: str, name: str, relay: RelaySettings, *, proved: bool
) -> Domain:
    identifier = new_id("dom")
    return Domain.objects.create(
        id=identifier,
        tenant_id=tenant_id,
        name=name,
        kind=DomainKind.EXTERNAL,
        method=Method.SMTP_RELAY,
        inbound=Inbound.FORWARD,
        transport=Transport.SMTP,
        reply_token=ReplyToken.NONE,
        state=DomainState.HEALTHY if proved else DomainState.PENDING,
        ownership_verified_at=database_now() if proved else None,
        smtp_sealed=_seal(identifier, "smtp_sealed", relay),
    )


def _seal(domain_id: str, column: str, relay: RelaySettings) -> str:
    return sealer().seal(relay.to_json(), place=Place("domains", column, domain_id))


def relay_of(domain: Domain) -> RelaySettings | None:
    """Return where a domain's mail is submitted; None when that is not set up.

    The platform's domain uses the deployment's relay. A domain's own CA bundle goes
    with its relay. Raises SealBroken if the stored credentials do not open.
    """
    if domain.kind == DomainKind.PLATFORM:
        return platform_relay()
    if domain.smtp_sealed is None:
        return None
    place = Place("domains", "smtp_sealed", domain.id)
    relay = RelaySettings.from_json(sealer().open(domain.smtp_sealed, place=place))
    return relay if domain.relay_ca is None else replace(relay, ca=domain.relay_ca)


def platform_relay() -> RelaySettings | None:
    """Return the relay of the platform's domain; None when there is none.

    ``PM_PLATFORM_RELAY_URL``; without it, in the local environment, the mail catcher
    that ``manage.py up`` and ``demo`` start beside the worker.
    """
    if settings.PM_PLATFORM_RELAY_URL:
        return parse_relay_url(settings.PM_PLATFORM_RELAY_URL, is_local=settings.LOCAL)
    return _catcher_relay() if settings.LOCAL else None


def catcher_endpoint() -> Path:
    """Return the file in which the catcher says where it listens."""
    return Path(settings.PM_DATA_DIR) / "catcher" / "endpoint.json"


def _catcher_relay() -> RelaySettings | None:
    try:
        return RelaySettings.from_json(catcher_endpoint().read_bytes())
    except FileNotFoundError:
        return None
