"""Taking one copy into a mailbox: read it, store its objects, then one transaction.

Read it first. A ring says no more than "look at this row": it may be late, doubled or
wrong, and the transaction decides, under the lock of the recipient's mailbox.
"""

from core import objects
from core.canonical import sha256_hex
from core.points import reach
from inbound import services
from inbound.copies import Copies
from inbound.letter import Letter
from inbound.parse import parse
from inbound.reading import bodies_of
from inbound.selectors import destination_of
from inbound.statuses import JobState


def receive(job_id: str) -> JobState | None:
    """Take in one copy that is due; safe to call twice, and at the same time.

    Returns what became of it, or None when there is nothing (more) to do. Raises
    ObjectStoreAway and Unavailable, after which it is tried again.
    """
    job = services.pending_job(job_id)
    if job is None:
        return None
    if (destination := destination_of(job.recipient)) is None:
        return services.drop(job_id, "no_such_mailbox")
    try:
        raw = objects.get(job.source_key)
    except objects.ObjectMissing:  # deleted with the sender's mailbox
        return services.drop(job_id, "sent_copy_missing")
    mail = parse(raw)
    bodies = bodies_of(mail)
    copies = Copies(
        tenant_id=destination.tenant_id,
        identity_id=destination.identity_id,
        message_id=job.message_id,
    )
    letter = Letter(
        message_id=job.message_id,
        mail=mail,
        bodies=bodies,
        files=copies.write(raw, mail.files),
        raw_key=copies.raw_key,
        raw_size=len(raw),
        raw_sha256=sha256_hex(raw),
    )
    reach("inbound.copied")
    state = services.take_in(job_id, letter, identity_id=destination.identity_id)
    if state in (JobState.DUPLICATE, JobState.DROPPED):
        copies.discard()
    elif state != JobState.RECEIVED:  # another worker was faster, or it has to wait
        copies.discard_files()
    return state
