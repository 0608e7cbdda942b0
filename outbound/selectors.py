"""Reading what a send depends on."""

import json
from collections.abc import Mapping
from typing import Any, Final

from django.conf import settings

from core import clock
from core.database import Row, fetch_one
from core.errors import IdentityNotFound
from domains.statuses import DomainKind, DomainState, ReplyToken, Transport
from mailboxes.policy import effective_policy
from mailboxes.statuses import (
    AddressRole,
    AddressStatus,
    IdentityStatus,
    TenantMode,
    TenantStatus,
)
from outbound.configured import is_configured
from outbound.ledger import LIVE, Accepted, Slot, replay_of
from outbound.plan import OwnAddress, SendFacts

_LOOK_AGAIN: Final = f"""
SELECT l.fingerprint, l.message_id, l.response,
       jsonb_build_object(
         'tenant_id', t.id, 'tenant_status', t.status, 'tenant_mode', t.mode,
         'policy', t.policy, 'identity_status', i.status,
         'pause_reason', i.pause_reason, 'display_name', i.display_name,
         'owner_name', i.owner_name, 'owner_email', i.owner_email,
         'signature_text', i.signature_text, 'signature_html', i.signature_html,
         'send_policy', i.send_policy, 'is_system', i.is_system,
         'next_thread_seq', s.next_thread_seq),
       ARRAY(SELECT jsonb_build_object(
                      'address', a.address, 'role', a.role, 'status', a.status,
                      'domain_kind', d.kind, 'domain_state', d.state,
                      'transport', d.transport, 'reply_token', d.reply_token,
                      'has_relay', d.smtp_sealed IS NOT NULL)
               FROM addresses a
               JOIN domains d ON d.id = a.domain_id
              WHERE a.identity_id = i.id),
       clock_timestamp()
  FROM identities i
  JOIN tenants t ON t.id = i.tenant_id
  JOIN mailbox_state s ON s.identity_id = i.id
  LEFT JOIN idempotency l
    ON l.identity_id = i.id AND l.key_hash = %(key_hash)s AND {LIVE}
 WHERE i.id = %(identity)s
"""  # noqa: S608  constants only
NO_KEY: Final = ""
"""No key has this hash."""


def look_again(slot: Slot) -> Accepted | SendFacts:
    """Return the earlier answer, or else what the policy has to know; one statement.

    Asked once the key is held, so it sees what committed before. Raises
    IdempotencyConflict, and IdentityNotFound for an identity that has just gone.
    """
    row = _look(slot.identity_id, slot.key_hash)
    if (earlier := replay_of(slot, row[:3])) is not None:
        return earlier
    return _facts(slot.identity_id, row)


def look_without_key(identity_id: str) -> SendFacts:
    """Return what the policy has to know; no key is looked up. For a dry run."""
    return _facts(identity_id, _look(identity_id, NO_KEY))


def _look(identity_id: str, key_hash: str) -> Row:
    parameters = {
        "identity": identity_id,
        "key_hash": key_hash,
        "clock_offset": clock.offset,
    }
    row = fetch_one(_LOOK_AGAIN, parameters)
    if row is None:
        raise IdentityNotFound("No such identity.")
    return row


def _facts(identity_id: str, row: Row) -> SendFacts:
    known, addresses, now = json.loads(row[3]), map(json.loads, row[4]), row[5]
    return SendFacts(
        tenant_id=known["tenant_id"],
        tenant_status=TenantStatus(known["tenant_status"]),
        tenant_mode=TenantMode(known["tenant_mode"]),
        identity_id=identity_id,
        identity_status=IdentityStatus(known["identity_status"]),
        pause_reason=known["pause_reason"],
        display_name=known["display_name"],
        owner_name=known["owner_name"],
        owner_email=known["owner_email"],
        signature_text=known["signature_text"],
        signature_html=known["signature_html"],
        policy=effective_policy(settings.PM_DEFAULT_POLICY, known["policy"]),
        send_policy=known["send_policy"],
        is_system=known["is_system"],
        addresses=tuple(map(_own_address, addresses)),
        next_thread_seq=known["next_thread_seq"],
        now=clock.to_milliseconds(now + clock.offset),
    )


def _own_address(row: Mapping[str, Any]) -> OwnAddress:
    kind = DomainKind(row["domain_kind"])
    is_platform = kind == DomainKind.PLATFORM
    transport = Transport(row["transport"])
    has_relay = _platform_has_relay() if is_platform else row["has_relay"]
    return OwnAddress(
        address=row["address"],
        role=AddressRole(row["role"]),
        status=AddressStatus(row["status"]),
        domain_kind=kind,
        domain_state=DomainState(row["domain_state"]),
        transport=transport,
        reply_token=ReplyToken(row["reply_token"]),
        is_configured=is_configured(transport, has_relay=has_relay),
    )


def _platform_has_relay() -> bool:
    # in the local environment the catcher is the relay, whenever it comes up
    return bool(settings.PM_PLATFORM_RELAY_URL) or bool(settings.LOCAL)
