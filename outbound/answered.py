"""Reading what an answer depends on: the message answered and its thread, at once.

Policy step 5 and the page's "Recipients", "Automatic-exchange cap" and "Threading
headers and subject". One statement, joined to the caller's transaction if there is one.
"""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from core.database import fetch_one
from mailboxes.recipients import AnsweredMessage, Party, address_key
from mailboxes.statuses import Direction, MessageKind, MessageStatus
from mailboxes.threading import ThreadIds
from outbound.body import Original
from outbound.from_choice import ThreadSender
from outbound.loops import hop_of
from outbound.plan import AnsweredFacts, StoredFile, ThreadFacts

_UNSENT: Final = "'canceled', 'rejected', 'failed', 'suppressed'"
_UNSEEN: Final = "'hidden', 'throttled'"
EARLIER: Final = 20
"""Earlier messages of a thread that are asked for an id; the newest."""
HEAD: Final = f"""
(SELECT jsonb_build_array(
          max(pk), max(pk) FILTER (WHERE status NOT IN ({_UNSENT})),
          sum(hashtextextended(concat_ws(' ', rfc_message_id, automated ->> 'hop'),
                               pk))::text,
          t.fallback_pinned, t.reply_from_address,
          (SELECT jsonb_object_agg(address, status) FROM addresses
            WHERE identity_id = t.identity_id))
   FROM messages WHERE thread_pk = t.pk AND status NOT IN ({_UNSEEN}))
"""  # noqa: S608  constants only
"""The head of a thread ``t``, as facts and lock compare it (``plan.Head``)."""
EXCHANGES: Final = f"""
(SELECT count(*) FROM messages m
  WHERE m.thread_pk = t.pk AND m.direction = 'outbound'
    AND m.kind = 'auto_reply' AND m.status NOT IN ({_UNSENT})
    AND m.pk > coalesce((SELECT max(n.pk) FROM messages n
                          WHERE n.thread_pk = t.pk AND n.direction = 'outbound'
                            AND n.kind <> 'auto_reply'), 0))
"""  # noqa: S608  constants only
"""The automatic replies of a thread ``t`` since the last other message of ours.

The page, "Automatic-exchange cap": those that did not go out do not count.
"""

_THREAD: Final = f"""
jsonb_build_object(
  'key', t.pk, 'id', t.id, 'seq', t.seq, 'subject', t.subject, 'last_at', t.last_at,
  'reply_from', t.reply_from_address, 'pinned', t.fallback_pinned,
  'participants', t.participants,
  'head', {HEAD},
  'used', (SELECT coalesce(jsonb_agg(DISTINCT from_address), '[]') FROM messages
            WHERE thread_pk = t.pk AND direction = 'outbound'
              AND from_address IS NOT NULL),
  'earlier', (SELECT coalesce(jsonb_agg(ids ORDER BY pk DESC), '[]') FROM (
     SELECT pk, jsonb_build_array(rfc_message_id, in_reply_to, ref_ids,
                                  message_id_synthetic) AS ids
       FROM messages
      WHERE thread_pk = t.pk AND rfc_message_id IS NOT NULL
        AND status NOT IN ({_UNSENT}, {_UNSEEN}, 'quarantined')
        AND (%(message)s::text IS NULL OR id <> %(message)s)
        AND pk < coalesce((SELECT pk FROM messages WHERE id = %(message)s
                              AND identity_id = %(identity)s), 9223372036854775807)
      ORDER BY pk DESC LIMIT {EARLIER}) AS named),
  'automated', (SELECT automated FROM messages
                 WHERE thread_pk = t.pk AND direction = 'inbound'
                   AND status IN ('received', 'quarantined')
                 ORDER BY pk DESC LIMIT 1),
  'exchanges', {EXCHANGES})
"""  # noqa: S608  constants only
_MESSAGE: Final = """
jsonb_build_object(
  'key', m.pk, 'direction', m.direction, 'status', m.status, 'kind', m.kind,
  'from', m.from_address, 'from_name', m.from_name, 'to', m.to_addrs, 'cc', m.cc_addrs,
  'reply_to', m.reply_to, 'known_sender', m.known_sender, 'subject', m.subject,
  'automated', m.automated, 'sent_at', coalesce(m.sent_at, m.received_at),
  'ids', jsonb_build_array(m.rfc_message_id, m.in_reply_to, m.ref_ids,
                           m.message_id_synthetic),
  'files', (SELECT coalesce(jsonb_agg(jsonb_build_object(
              'id', a.id, 'filename', a.filename, 'content_type', a.content_type,
              'size', a.size, 'disposition', a.disposition,
              'content_id', a.content_id, 'object_key', a.object_key)
              ORDER BY a.part_index), '[]')
     FROM attachments a
    WHERE a.message_pk = m.pk AND a.risk IS NULL AND a.scan_status <> 'infected'
      AND %(with_body)s),
  'text', CASE WHEN %(with_body)s THEN m.text END,
  'html', CASE WHEN %(with_body)s THEN m.html_sanitized END,
  'written', (SELECT coalesce(jsonb_agg(address), '[]') FROM (
     SELECT c.address FROM contacts c
      WHERE c.identity_id = m.identity_id AND c.outbound_count > 0
        AND c.address = lower(m.reply_to -> 0 ->> 'address')
      UNION ALL
     SELECT c.address FROM contacts c
      WHERE octet_length(m.reply_to -> 0 ->> 'address')
              > char_length(m.reply_to -> 0 ->> 'address')
        AND c.identity_id = m.identity_id AND c.outbound_count > 0
        AND split_part(c.address, '@', 1)
              = lower(split_part(m.reply_to -> 0 ->> 'address', '@', 1))) AS like_it))
"""
"""A message ``m``. Contacts stand with A-labels; a domain that is spelled otherwise is
compared with all of its local part (``_has_written_to``)."""
_BY_MESSAGE: Final = f"""
SELECT {_THREAD}, {_MESSAGE}
  FROM messages m JOIN threads t ON t.pk = m.thread_pk
 WHERE m.id = %(message)s AND m.identity_id = %(identity)s
"""  # noqa: S608  constants only
_BY_THREAD: Final = f"""
SELECT {_THREAD}
  FROM threads t
 WHERE t.id = %(thread)s AND t.identity_id = %(identity)s
"""  # noqa: S608  constants only


def answered_facts(
    identity_id: str,
    message_id: str,
    *,
    with_body: bool = False,
    sees_quarantined: bool = False,
) -> tuple[AnsweredFacts, ThreadFacts] | None:
    """Return a message of this mailbox and its thread; None (404) for any other.

    Hidden and throttled mail is never there, quarantined mail only for those who may
    review it. ``with_body`` reads text, HTML and safe files too, for a forward.
    """
    row = fetch_one(
        _BY_MESSAGE,
        {"identity": identity_id, "message": message_id, "with_body": with_body},
    )
    if row is None:
        return None
    thread, message = _thread(json.loads(row[0])), json.loads(row[1])
    unseen = {MessageStatus.HIDDEN, MessageStatus.THROTTLED}
    if not sees_quarantined:
        unseen.add(MessageStatus.QUARANTINED)
    if message["status"] in unseen:
        return None
    return _answered(message, thread), thread


def thread_facts(identity_id: str, thread_id: str) -> ThreadFacts | None:
    """Return a thread of this mailbox; None (404) for any other."""
    parameters = {"identity": identity_id, "thread": thread_id, "message": None}
    row = fetch_one(_BY_THREAD, parameters)
    return None if row is None else _thread(json.loads(row[0]))


def _thread(row: Mapping[str, Any]) -> ThreadFacts:
    return ThreadFacts(
        key=row["key"],
        id=row["id"],
        seq=row["seq"],
        subject=row["subject"],
        head=tuple(row["head"]),
        participants=_parties(row["participants"]),
        sender=ThreadSender(
            reply_from_address=row["reply_from"],
            fallback_pinned=row["pinned"],
            last_at=datetime.fromisoformat(row["last_at"]),
            used=frozenset(row["used"]),
        ),
        earlier=tuple(map(_ids, row["earlier"])),
        hop=hop_of(row["automated"]),
        exchanges=row["exchanges"],
    )


def _answered(row: Mapping[str, Any], thread: ThreadFacts) -> AnsweredFacts:
    direction = Direction(row["direction"])
    sender = Party(row["from"], row["from_name"]) if row["from"] else None
    reply_to = _parties(row["reply_to"])
    message = AnsweredMessage(
        direction=direction,
        sender=sender,
        to=_parties(row["to"]),
        cc=_parties(row["cc"]),
        reply_to=reply_to,
        known_sender=bool(row["known_sender"]),
        has_written_to_reply_to=_has_written_to(reply_to, row["written"]),
    )
    is_inbound = direction == Direction.INBOUND
    return AnsweredFacts(
        key=row["key"],
        status=MessageStatus(row["status"]),
        kind=MessageKind(row["kind"]),
        subject=row["subject"] or "",
        message=message,
        ids=_ids(row["ids"]),
        hop=hop_of(row["automated"]) if is_inbound else thread.hop,
        original=Original(
            sender=sender,
            sent_at=datetime.fromisoformat(row["sent_at"]),
            subject=row["subject"] or "",
            to=message.to,
            text=row["text"] or "",
            html=row["html"] or None,
        ),
        files=tuple(StoredFile(**file) for file in row["files"]),
    )


def _has_written_to(reply_to: Sequence[Party], contacts: Sequence[str]) -> bool:
    return bool(reply_to) and address_key(reply_to[0].address) in contacts


def _parties(rows: list[Mapping[str, Any]]) -> tuple[Party, ...]:
    return tuple(Party(row["address"], row.get("name")) for row in rows)


def _ids(row: list[Any]) -> ThreadIds:
    rfc_message_id, in_reply_to, references, is_synthetic = row
    return ThreadIds(rfc_message_id, in_reply_to, tuple(references), is_synthetic)
