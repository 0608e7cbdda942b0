"""Reading what a send depends on."""

import json
from collections.abc import Mapping
from typing import Any, Final

from django.conf import settings

from core import clock
from core.database import fetch_one
from core.errors import IdentityNotFound
from domains.statuses import DomainState, Transport
from mailboxes.policy import effective_policy
from mailboxes.statuses import (
    AddressRole,
    AddressStatus,
    IdentityStatus,
    TenantMode,
    TenantStatus,
)
from outbound.ledger import LIVE, Accepted, Slot, replay_of
from outbound.plan import OwnAddress, SendFacts

_LOOK_AGAIN: Final = f"""
SELECT l.fingerprint, l.message_id, l.response,
       jsonb_build_object(
         'tenant_id', t.id, 'tenant_status', t.status, 'tenant_mode', t.mode,
         'policy', t.policy, 'identity_status', i.status,
         'pause_reason', i.pause_reason, 'display_name', i.display_name,
         'owner_name', i.owner_name, 'owner_email', i.owner_email,
         'signature_text', i.signature_text, 'signature_html', i.signature_html),
       ARRAY(SELECT jsonb_build_object(
                      'address', a.address, 'role', a.role, 'status', a.status,
                      'domain_state', d.state, 'transport', d.transport)
               FROM addresses a
               JOIN domains d ON d.id = a.domain_id
              WHERE a.identity_id = i.id AND a.status <> 'retired'),
       clock_timestamp() + %(clock_offset)s
  FROM identities i
  JOIN tenants t ON t.id = i.tenant_id
  LEFT JOIN idempotency l
    ON l.identity_id = i.id AND l.key_hash = %(key_hash)s AND {LIVE}
 WHERE i.id = %(identity)s
"""  # noqa: S608  constants only


def look_again(slot: Slot) -> Accepted | SendFacts:
    """Return the earlier answer, or else what the policy has to know; one statement.

    Asked once the key is held, so it sees what committed before. Raises
    IdempotencyConflict, and IdentityNotFound for an identity that has just gone.
    """
    parameters = {
        "identity": slot.identity_id,
        "key_hash": slot.key_hash,
        "clock_offset": clock.offset,
    }
    row = fetch_one(_LOOK_AGAIN, parameters)
    if row is None:
        raise IdentityNotFound("No such identity.")
    if (earlier := replay_of(slot, row[:3])) is not None:
        return earlier
    known, addresses, now = json.loads(row[3]), map(json.loads, row[4]), row[5]
    return SendFacts(
        tenant_id=known["tenant_id"],
        tenant_status=TenantStatus(known["tenant_status"]),
        tenant_mode=TenantMode(known["tenant_mode"]),
        identity_id=slot.identity_id,
        identity_status=IdentityStatus(known["identity_status"]),
        pause_reason=known["pause_reason"],
        display_name=known["display_name"],
        owner_name=known["owner_name"],
        owner_email=known["owner_email"],
        signature_text=known["signature_text"],
        signature_html=known["signature_html"],
        policy=effective_policy(settings.PM_DEFAULT_POLICY, known["policy"]),
        addresses=tuple(map(_own_address, addresses)),
        now=clock.to_milliseconds(now),
    )


def _own_address(row: Mapping[str, Any]) -> OwnAddress:
    return OwnAddress(
        address=row["address"],
        role=AddressRole(row["role"]),
        status=AddressStatus(row["status"]),
        domain_state=DomainState(row["domain_state"]),
        transport=Transport(row["transport"]),
    )
