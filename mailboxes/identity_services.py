"""The life of identities: made, changed, paused and resumed, deleted.

What a caller may write stands in ``identity_rules.py``. Whoever makes an identity holds
the names of its tenant first, then locks the domain it sends from; whoever changes one
locks its mailbox first (mailboxes, section 2.2).
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from core.clock import database_now
from core.errors import IdentityNotFound, ScopeDenied
from core.ids import new_id
from mailboxes.address_rows import bury_addresses, insert_address, tell
from mailboxes.address_rules import SendingDomain
from mailboxes.errors import (
    ClientIdConflict,
    PausedWithTenant,
    SendingDomainNotReady,
    UsernameTaken,
)
from mailboxes.identity_rules import NewIdentity, changed_columns, columns_of
from mailboxes.models import ApiKey, Identity, Mailbox, Tenant
from mailboxes.services import (
    ABUSE_ALERT,
    NewEvent,
    audit,
    lock_identity,
    lock_mailbox,
    pause_identity,
    publish,
    resolve_alerts,
)
from mailboxes.shown import identity_json
from mailboxes.statuses import (
    AddressRole,
    IdentityStatus,
    PauseReason,
    TenantStatus,
)
from mailboxes.usernames import check_username, fold


def made_before(tenant_id: str, client_id: str, fingerprint: str) -> Identity | None:
    """Return the identity that this request has made already; None if there is none.

    Joins the caller's transaction, which holds the tenant's names. Raises
    ClientIdConflict when the ``client_id`` stands for another request.
    """
    found = Identity.objects.filter(tenant_id=tenant_id, client_id=client_id).first()
    if found is not None and found.client_fingerprint != fingerprint:
        raise ClientIdConflict("This client_id was used for another identity.")
    return found


def create_identity(
    tenant: Tenant,
    wanted: NewIdentity,
    *,
    platform: SendingDomain,
    own: SendingDomain | None = None,
    actor_key_id: str | None = None,
) -> Identity:
    """Make an identity, its mailbox and its addresses: the platform's, and its own.

    The address on its own domain is primary, if one is given. In a suspended tenant it
    is paused until the tenant goes on. Joins the caller's transaction, which holds the
    tenant's names. Raises the refusals of
    ``check_username``, UsernameTaken, SendingDomainNotReady and AddressTaken.
    """
    username = _free_username(tenant, wanted.username)
    if own is not None and not own.is_ready:
        raise SendingDomainNotReady("The domain is not ready to be sent from.")
    now = database_now()
    identity = Identity.objects.create(
        id=new_id("idn"),
        tenant=tenant,
        username=username,
        client_id=wanted.client_id,
        client_fingerprint=wanted.fingerprint,
        **_first_status(tenant),
        created_at=now,
        updated_at=now,
        **columns_of(wanted.given, send_policy={}),
    )
    Mailbox.objects.create(identity=identity, tenant=tenant)
    addresses = [
        insert_address(identity, local_part, domain=domain, role=role, now=now)
        for local_part, domain, role in _first_addresses(
            tenant, username, platform, own
        )
    ]
    _tell("created", identity, now=now, identity=identity_json(identity))
    for address in addresses:
        tell("address_added", address, now=now)
    _audit("identity.create", identity, actor_key_id)
    return identity


def _first_status(tenant: Tenant) -> dict[str, Any]:
    """Return how an identity begins: paused like the others, in a suspended tenant."""
    if _is_suspended(tenant.id):
        reason = PauseReason.TENANT_SUSPENDED
        return {"status": IdentityStatus.PAUSED, "pause_reason": reason}
    return {"status": IdentityStatus.ACTIVE}


def _is_suspended(tenant_id: str) -> bool:
    """Ask the row as it is now: who suspends holds the names and every mailbox."""
    suspended = Tenant.objects.filter(id=tenant_id, status=TenantStatus.SUSPENDED)
    return suspended.exists()


def _free_username(tenant: Tenant, wanted: str) -> str:
    """Return the user name in lower case, if nobody's looks the same."""
    name = check_username(wanted, suffix=tenant.address_suffix)
    live = Identity.objects.filter(tenant=tenant).exclude(status=IdentityStatus.DELETED)
    if fold(name) in set(map(fold, live.values_list("username", flat=True))):
        raise UsernameTaken(f"{name} is, or looks like, the name of another identity")
    return name


def _first_addresses(
    tenant: Tenant, username: str, platform: SendingDomain, own: SendingDomain | None
) -> list[tuple[str, SendingDomain, AddressRole]]:
    local_part = username + tenant.address_suffix
    if own is None:
        return [(local_part, platform, AddressRole.PRIMARY)]
    return [
        (local_part, platform, AddressRole.ALIAS),
        (username, own, AddressRole.PRIMARY),
    ]


def update_identity(
    identity_id: str,
    given: Mapping[str, Any],
    *,
    status: IdentityStatus | None = None,
    may_lift_abuse: bool = False,
    actor_key_id: str | None = None,
) -> Identity:
    """Write the fields that are given, ``None`` resetting them; pause or resume.

    Tells which fields really changed, and nothing if none did. Joins the caller's
    transaction. Raises IdentityNotFound, and what ``_resume`` raises.
    """
    identity = lock_identity(identity_id)
    now = database_now()
    columns = columns_of(given, send_policy=identity.send_policy)
    if changed := changed_columns(given, columns, identity):
        Identity.objects.filter(id=identity.id).update(**columns, updated_at=now)
        _tell_update(identity, changed, now=now)
        _audit("identity.update", identity, actor_key_id, fields=changed)
    if status == IdentityStatus.PAUSED:
        pause_identity(identity.id, actor_key_id=actor_key_id)
    if status == IdentityStatus.ACTIVE:
        _resume(identity, may_lift_abuse, actor_key_id, now=now)
    identity.refresh_from_db()
    return identity


def _resume(
    identity: Identity, may_lift_abuse: bool, actor_key_id: str | None, *, now: datetime
) -> None:
    """Resume a paused identity, if the caller may: it depends on who paused it.

    Raises PausedWithTenant while the tenant is suspended, or ScopeDenied for an abuse
    pause that the key's level cannot lift.
    """
    if identity.status != IdentityStatus.PAUSED:
        return
    reason = identity.pause_reason
    if _is_suspended(identity.tenant_id):
        raise PausedWithTenant(
            "The tenant is suspended.", details={"reason": PauseReason.TENANT_SUSPENDED}
        )
    if reason == PauseReason.ABUSE_THRESHOLD and not may_lift_abuse:
        raise ScopeDenied(
            "An identity's own key cannot lift a pause for abuse.",
            details={"field": "status", "reason": "not_writable"},
        )
    Identity.objects.filter(id=identity.id).update(
        status=IdentityStatus.ACTIVE, pause_reason=None, updated_at=now
    )
    if reason == PauseReason.ABUSE_THRESHOLD:
        resolve_alerts(ABUSE_ALERT, subject=identity.id)
    _tell("resumed", identity, now=now, identity_id=identity.id)
    _audit("identity.resume", identity, actor_key_id, reason=reason)


def delete_identity(identity_id: str, *, actor_key_id: str | None = None) -> bool:
    """Begin an identity's end: no send, no address, no key of it from now on.

    What is queued is canceled when its turn comes, and ``finish_deletions`` sees to the
    rest; messages and the keys of sends stay. Tells whether anything changed; a second
    call changes nothing. Joins the caller's transaction. Raises IdentityNotFound.
    """
    if not lock_mailbox(identity_id):
        raise IdentityNotFound("No such identity.")
    now = database_now()
    live = Identity.objects.filter(
        id=identity_id, status__in=(IdentityStatus.ACTIVE, IdentityStatus.PAUSED)
    )
    if not live.update(
        status=IdentityStatus.DELETING, pause_reason=None, updated_at=now
    ):
        return False
    identity = Identity.objects.get(id=identity_id)
    Mailbox.objects.filter(identity=identity).update(is_closed=True)
    bury_addresses(identity)
    ApiKey.objects.filter(identity=identity, revoked_at=None).update(
        revoked_at=now, prev_hash=None, prev_expires_at=None
    )
    _tell_update(identity, ["addresses", "status"], now=now)
    _audit("identity.delete", identity, actor_key_id)
    return True


def note_deleted(identity: Identity, *, now: datetime) -> None:
    """Tell that an identity has ended; joins the caller's transaction."""
    resolve_alerts(ABUSE_ALERT, subject=identity.id)
    _tell_update(identity, ["status"], now=now)
    _audit("identity.deleted", identity, None)


def _tell_update(identity: Identity, changed: list[str], *, now: datetime) -> None:
    identity.refresh_from_db()
    shown = identity_json(identity)
    _tell("updated", identity, now=now, identity=shown, changed=changed)


def _tell(event: str, identity: Identity, /, *, now: datetime, **data: Any) -> None:
    publish(
        [NewEvent(f"identity.{event}", data)],
        tenant_id=identity.tenant_id,
        identity_id=identity.id,
        now=now,
    )


def _audit(
    action: str, identity: Identity, actor_key_id: str | None, **details: Any
) -> None:
    audit(
        action,
        tenant_id=identity.tenant_id,
        target_type="identity",
        target_id=identity.id,
        details=details,
        actor_key_id=actor_key_id,
    )
