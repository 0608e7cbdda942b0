"""Reading the mail of a mailbox, as far as anybody is shown it."""

from django.db.models import QuerySet

from core.errors import MessageNotFound, ThreadNotFound
from core.ids import is_id
from mailboxes.models import Message, Thread
from mailboxes.statuses import UNSEEN


def seen_messages(identity_id: str) -> QuerySet[Message]:
    """Return the messages of a mailbox that may be seen."""
    return Message.objects.filter(identity_id=identity_id).exclude(status__in=UNSEEN)


def seen_threads(identity_id: str) -> QuerySet[Thread]:
    """Return the threads of a mailbox that hold a message that may be seen."""
    return Thread.objects.filter(identity_id=identity_id, message_count__gt=0)


def seen_message(identity_id: str, message_id: str) -> Message:
    """Return a message that may be seen, bare; raises MessageNotFound."""
    return message_among(seen_messages(identity_id).only("public_id"), message_id)


def seen_thread(identity_id: str, thread_id: str) -> Thread:
    """Return a thread that may be seen, as it is stored; raises ThreadNotFound."""
    return thread_among(seen_threads(identity_id), thread_id)


def message_among(found: QuerySet[Message], message_id: str) -> Message:
    """Return one of these messages; raises MessageNotFound, alike for every cause."""
    known = is_id(message_id, "msg")
    message = found.filter(public_id=message_id).first() if known else None
    if message is None:
        raise MessageNotFound("No such message.")
    return message


def thread_among(found: QuerySet[Thread], thread_id: str) -> Thread:
    """Return one of these threads; raises ThreadNotFound, alike for every cause."""
    known = is_id(thread_id, "thr")
    thread = found.filter(public_id=thread_id).first() if known else None
    if thread is None:
        raise ThreadNotFound("No such thread.")
    return thread
