"""From facts to a plan and its bytes: the steps of the policy, and what they read.

No row lock is held here, and nothing is written: what a send does next, and all that a
dry run does (architecture section 3, step 5).
"""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from functools import partial

from django.conf import settings

from core import objects
from core.elapsed import elapsed_clock
from core.errors import ObjectStoreAway
from core.ids import is_id, new_id
from mailboxes.statuses import Operation, TenantMode
from outbound.answered import answered_facts, thread_facts
from outbound.answering import carried_count, carries_files
from outbound.compose import ComposedMessage
from outbound.composing import Links, compose_plan, reply_to_of
from outbound.content import carried_file
from outbound.draft import Draft, NewIds
from outbound.errors import AttachmentGone
from outbound.mime import Attachment
from outbound.order import Order
from outbound.plan import SendFacts, SendPlan, StoredFile
from outbound.policy import check_recipients, check_request
from outbound.signing import Signer
from suppressions.selectors import filter_facts

READ_SECONDS = 10.0
"""How long the store may take for all files that are forwarded."""


def with_target(facts: SendFacts, order: Order) -> SendFacts:
    """Return the facts with what is answered, read now if the operation needs it."""
    thread_id = order.request.thread_id
    if order.message_id is not None:
        if not is_id(order.message_id, "msg"):
            return facts  # whatever a path may hold: there is no such message
        found = answered_facts(
            order.identity_id,
            order.message_id,
            with_body=order.operation == Operation.FORWARD,
        )
        answered, thread = found if found is not None else (None, None)
        return replace(facts, thread=thread, answered=answered)
    if thread_id is not None:
        return replace(facts, thread=thread_facts(order.identity_id, thread_id))
    return facts


def judge(facts: SendFacts, order: Order) -> Draft:
    """Return the request after steps 1 to 16; raises the first refusal.

    The recipients' rows are read once it is known who they are.
    """
    draft = Draft(
        facts=facts,
        request=order.request,
        operation=order.operation,
        forwarded_html=order.original_html,
    )
    check_request(draft)
    draft.filters = filter_facts(
        [recipient.address for recipient in draft.recipients],
        tenant_id=facts.tenant_id,
        identity_id=facts.identity_id,
        now=facts.now,
        with_directory=facts.tenant_mode == TenantMode.TEST,
    )
    check_recipients(draft)
    return draft


def plan_of(
    draft: Draft, *, message_id: str, thread_id: str, sign: Signer
) -> tuple[SendPlan, ComposedMessage]:
    """Return the plan and its bytes; files that are forwarded are read from the store.

    Raises MessageTooLarge (step 17), AttachmentGone, ObjectStoreAway.
    """
    _read_forwarded(draft)
    count = len(draft.files) + carried_count(draft)
    ids = NewIds(message_id, thread_id, tuple(new_id("att") for _ in range(count)))
    plan = draft.finish(ids, reply_to=partial(reply_to_of, sign=sign))
    return compose_plan(plan, links=_links(draft), sign=sign)


def _read_forwarded(draft: Draft) -> None:
    answered = draft.facts.answered
    if answered is not None and carries_files(draft):
        draft.carried = _read_all(answered.files)


def _read_all(files: Sequence[StoredFile]) -> tuple[Attachment, ...]:
    """Read the files one after the other; a slow store does not hold the thread."""
    until = elapsed_clock() + READ_SECONDS
    found = []
    for stored in files:
        found.append(_read(stored))
        if elapsed_clock() > until:
            raise ObjectStoreAway("The object store took too long.")
    return tuple(found)


def _read(stored: StoredFile) -> Attachment:
    try:
        content = objects.get(stored.object_key)
    except objects.ObjectMissing:
        raise AttachmentGone(
            "A file of the message is no longer kept.",
            details={"attachment_id": stored.id},
        ) from None
    return carried_file(stored, content)


def _links(draft: Draft) -> Links | None:
    policy = draft.facts.policy
    if policy["large_attachments"] != "link":
        return None
    hours = max(1, min(168, int(policy["link_ttl_hours"])))
    return Links(_base_url(), timedelta(hours=hours))


def _base_url() -> str:
    host = settings.PM_API_HOST
    if not settings.LOCAL:
        return f"https://{host}"
    return f"http://{host}" if ":" in host else f"http://{host}:8000"
