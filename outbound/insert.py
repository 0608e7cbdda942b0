"""One statement that writes all rows of an accepted send.

Every row or none: the caller stands behind a savepoint and goes back to it when the
ledger has a live row for the key.
"""

from datetime import date, datetime, timedelta
from typing import Final

from django.conf import settings
from psycopg.types.json import Jsonb

from core import clock
from core.addresses import domain_of, org_domain
from core.canonical import sha256_hex
from core.database import fetch_one
from delivery.statuses import RecipientField
from outbound.compose import ComposedMessage
from outbound.ledger import OPEN, Slot
from outbound.plan import SendPlan
from outbound.sent_copy import copy_key, file_key
from outbound.serializers import Json, people, person, reply_to_of

SNIPPET: Final = 240

_MAY_SEND: Final = """
  (%(is_history)s OR EXISTS (
     SELECT 1 FROM identities i JOIN tenants t ON t.id = i.tenant_id
      WHERE i.id = %(identity)s::varchar
        AND i.status = 'active' AND t.status = 'active'))
"""
"""Asked again under the mailbox's lock: a pause or a suspension may have come since."""
_NEW_THREAD: Final = f"""
WITH thread AS (
  INSERT INTO threads (id, tenant_id, identity_id, seq, subject, first_at, last_at,
                       last_outbound_at, message_count, participants,
                       reply_from_address)
  SELECT %(thread)s, %(tenant)s, %(identity)s, %(seq)s, %(subject)s, %(now)s, %(now)s,
         %(now)s, 1, %(participants)s, %(from_address)s
   WHERE {_MAY_SEND}
  RETURNING pk
"""
_KNOWN_THREAD: Final = f"""
WITH thread AS (
  UPDATE threads
     SET last_at = greatest(last_at, %(now)s), last_outbound_at = %(now)s,
         message_count = message_count + 1, participants = %(participants)s,
         subject = CASE WHEN subject = '' THEN %(subject)s ELSE subject END,
         fallback_pinned = fallback_pinned AND NOT %(unpins)s,
         -- nothing is on its way when everybody was set aside
         lock_owner = CASE WHEN %(status)s = 'queued' THEN lock_owner END,
         lock_until = CASE WHEN %(status)s = 'queued' THEN lock_until END
   WHERE pk = %(thread_pk)s AND {_MAY_SEND}
  RETURNING pk
"""  # noqa: S608  constants only
_REST: Final = f"""
), message AS (
  INSERT INTO messages (id, tenant_id, identity_id, thread_pk, direction, status, kind,
                        operation, rfc_message_id, in_reply_to, ref_ids, raw_key,
                        raw_size, from_address, from_name, sender_domain, reply_to,
                        to_addrs, cc_addrs, bcc_addrs, subject, text, extracted_text,
                        snippet, sent_at, received_at, created_at, updated_at,
                        cap_day, metadata, consent, flags)
  SELECT %(message)s, %(tenant)s, %(identity)s, thread.pk, 'outbound', %(status)s,
         %(kind)s, %(operation)s, %(rfc_message_id)s, %(in_reply_to)s, %(ref_ids)s,
         %(raw_key)s, %(raw_size)s, %(from_address)s, %(from_name)s,
         %(sender_domain)s, %(reply_to)s, %(to)s, %(cc)s, %(bcc)s, %(subject)s,
         %(text)s, %(extracted_text)s, %(snippet)s, %(now)s, %(now)s, %(now)s, %(now)s,
         %(cap_day)s, %(metadata)s, %(consent)s, %(flags)s
    FROM thread
  RETURNING pk
), delivered AS (
  INSERT INTO deliveries (message_pk, tenant_id, address, field, status, reason,
                          smtp_response, updated_at)
  SELECT message.pk, %(tenant)s, r.address, r.field, r.status, r.reason, r.response,
         %(now)s
    FROM message, unnest(%(addresses)s::text[], %(fields)s::text[],
                         %(statuses)s::text[], %(reasons)s::text[],
                         %(responses)s::text[])
      r(address, field, status, reason, response)
), queued AS (
  INSERT INTO outbound_state (message_pk, tenant_id, dispatch_at)
  SELECT message.pk, %(tenant)s, %(now)s FROM message WHERE %(status)s = 'queued'
), labelled AS (
  INSERT INTO labels (message_pk, tenant_id, label)
  SELECT message.pk, %(tenant)s, word FROM message, unnest(%(labels)s::text[]) word
), attached AS (
  INSERT INTO attachments (id, tenant_id, message_pk, part_index, filename,
                           content_type, size, sha256, disposition, content_id,
                           object_key)
  SELECT f.id, %(tenant)s, message.pk, f.part_index, f.filename, f.content_type,
         f.size, f.sha256, f.disposition, f.content_id, f.object_key
    FROM message, jsonb_to_recordset(%(files)s)
      AS f(id text, part_index int, filename text, content_type text, size bigint,
           sha256 text, disposition text, content_id text, object_key text)
), known AS (
  INSERT INTO contacts (identity_id, tenant_id, address, name, domain, first_seen_at,
                        last_seen_at, outbound_count, last_thread_pk)
  SELECT %(identity)s, %(tenant)s, r.address, r.name, r.domain, %(now)s, %(now)s, 1,
         thread.pk
    FROM thread, unnest(%(addresses)s::text[], %(names)s::text[], %(domains)s::text[],
                        %(statuses)s::text[])
      r(address, name, domain, status)
   WHERE r.status = 'queued'  -- who was set aside has not been written to
  ON CONFLICT (identity_id, address) DO UPDATE
     SET outbound_count = contacts.outbound_count + 1,
         last_seen_at = EXCLUDED.last_seen_at,
         name = COALESCE(EXCLUDED.name, contacts.name),
         last_thread_pk = EXCLUDED.last_thread_pk
)
INSERT INTO idempotency AS l (identity_id, key_hash, tenant_id, fingerprint, operation,
                              message_id, response, created_at, expires_at)
SELECT %(identity)s, %(key_hash)s, %(tenant)s, %(fingerprint)s, %(operation)s,
       %(message)s, %(response)s, %(now)s, %(expires)s
  FROM message
ON CONFLICT (identity_id, key_hash) DO UPDATE
   SET tenant_id = EXCLUDED.tenant_id, fingerprint = EXCLUDED.fingerprint,
       operation = EXCLUDED.operation, message_id = EXCLUDED.message_id,
       response = EXCLUDED.response, created_at = EXCLUDED.created_at,
       expires_at = EXCLUDED.expires_at
 WHERE l.expires_at <= clock_timestamp() + %(clock_offset)s
   AND NOT {OPEN}
RETURNING l.message_id
"""  # noqa: S608  constants only
_INTO_NEW: Final = _NEW_THREAD + _REST
_INTO_KNOWN: Final = _KNOWN_THREAD + _REST


def insert_send(
    plan: SendPlan,
    composed: ComposedMessage,
    slot: Slot,
    *,
    thread_seq: int,
    response: Json,
    cap_day: date | None,
    now: datetime,
    is_history: bool = False,
) -> bool:
    """Write every row of a send; tell whether it was possible.

    False means that a live ledger row stands, or that identity or tenant may no longer
    send (not asked of what was accepted long ago, ``is_history``): the rows must be
    rolled back. Joins the caller's transaction, which holds the
    mailbox row.
    """
    row = fetch_one(
        _INTO_NEW if plan.thread.key is None else _INTO_KNOWN,
        {
            **_thread(plan),
            **_message(plan, composed),
            **_recipients(plan),
            "labels": list(plan.labels),
            "files": Jsonb(_files(plan)),
            "seq": thread_seq,
            "cap_day": cap_day,
            "now": now,
            "is_history": is_history,
            "clock_offset": clock.offset,
            "key_hash": slot.key_hash,
            "fingerprint": slot.fingerprint,
            "response": Jsonb(response),
            "expires": _expires_at(now),
        },
    )
    return row is not None


def _thread(plan: SendPlan) -> Json:
    people_in_it = [person(p.address, p.name) for p in plan.thread.participants]
    return {
        "thread": plan.thread.id,
        "thread_pk": plan.thread.key,
        "unpins": plan.thread.unpins,
        "participants": Jsonb(people_in_it),
    }


def _message(plan: SendPlan, composed: ComposedMessage) -> Json:
    return {
        "tenant": plan.tenant_id,
        "identity": plan.identity_id,
        "message": plan.message_id,
        "status": str(plan.status),
        "kind": str(plan.kind),
        "operation": str(plan.operation),
        "rfc_message_id": composed.rfc_message_id,
        "in_reply_to": plan.in_reply_to,
        "ref_ids": list(plan.references),
        "reply_to": Jsonb(reply_to_of(plan)),
        "raw_key": copy_key(plan),
        "raw_size": len(composed.mime),
        "from_address": plan.from_address,
        "from_name": plan.from_name,
        "sender_domain": org_domain(domain_of(plan.from_address)),
        "subject": plan.subject,
        "text": plan.stored_text,
        "extracted_text": plan.extracted_text,
        "flags": list(plan.flags),
        "snippet": " ".join(plan.text[: 4 * SNIPPET].split())[:SNIPPET],
        "metadata": Jsonb(dict(plan.metadata)),
        "consent": Jsonb(dict(plan.consent)) if plan.consent else None,
    }


def _recipients(plan: SendPlan) -> Json:
    # sorted: two sends that write to the same contacts take them in one order
    ordered = sorted(plan.recipients, key=lambda recipient: recipient.address)
    to, cc, bcc = (people(plan.in_field(field)) for field in RecipientField)
    return {
        "to": Jsonb(to),
        "cc": Jsonb(cc),
        "bcc": Jsonb(bcc),
        "addresses": [recipient.address for recipient in ordered],
        "fields": [str(recipient.field) for recipient in ordered],
        "statuses": [str(recipient.status) for recipient in ordered],
        "reasons": [recipient.reason for recipient in ordered],
        "responses": [recipient.smtp_response for recipient in ordered],
        "names": [recipient.name for recipient in ordered],
        "domains": [domain_of(recipient.address) for recipient in ordered],
    }


def _files(plan: SendPlan) -> list[Json]:
    return [
        {
            "id": planned.id,
            "part_index": index,
            "filename": planned.file.filename,
            "content_type": planned.file.content_type,
            "size": len(planned.file.content),
            "sha256": sha256_hex(planned.file.content),
            "disposition": planned.file.disposition,
            "content_id": planned.file.content_id,
            "object_key": file_key(plan, planned.id),
        }
        for index, planned in enumerate(plan.files)
    ]


def _expires_at(now: datetime) -> datetime | None:
    days = settings.PM_IDEMPOTENCY_DAYS
    return now + timedelta(days=days) if days else None
