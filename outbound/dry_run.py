"""A dry run: steps 1 to 17 of the policy, and not a byte written anywhere."""

from typing import Any, Final

from core.ids import new_id
from mailboxes.selectors import identity_in_reach
from outbound.draft import Draft
from outbound.errors import AllRecipientsSuppressed, RecipientBlocked
from outbound.order import Order
from outbound.plan import PlannedRecipient
from outbound.prepare import judge, plan_of, with_target
from outbound.selectors import look_without_key
from outbound.signing import no_key
from outbound.stored_html import with_original
from suppressions.filters import DryRunRefusal, dry_run_refusal

_REFUSALS: Final = {
    DryRunRefusal.ALL_RECIPIENTS_SUPPRESSED: AllRecipientsSuppressed,
    DryRunRefusal.RECIPIENT_BLOCKED: RecipientBlocked,
}


def dry_run(order: Order) -> dict[str, Any]:
    """Return what a send would do, or raise what it would be refused with.

    No key is looked up or recorded, no quota set aside, no thread locked. Raises
    AllRecipientsSuppressed or RecipientBlocked when nobody at all would be written to.
    """
    identity = identity_in_reach(order.identity_id, caller=order.caller)
    order = with_original(order, keep=False)
    draft = judge(with_target(look_without_key(identity.id), order), order)
    plan_of(draft, message_id=new_id("msg"), thread_id=new_id("thr"), sign=no_key)
    _refuse_if_nobody_is_left(draft)
    return {
        "would_send": True,
        "recipients": [_recipient(recipient) for recipient in draft.recipients],
    }


def _refuse_if_nobody_is_left(draft: Draft) -> None:
    addresses = [recipient.address for recipient in draft.recipients]
    if (refusal := dry_run_refusal(addresses, draft.filtered)) is not None:
        recipients = [_recipient(recipient) for recipient in draft.recipients]
        raise _REFUSALS[refusal](
            "Nobody would be written to.", details={"recipients": recipients}
        )


def _recipient(recipient: PlannedRecipient) -> dict[str, Any]:
    shown = {
        "address": recipient.address,
        "field": str(recipient.field),
        "status": str(recipient.status),
    }
    return shown | ({"reason": recipient.reason} if recipient.reason else {})
