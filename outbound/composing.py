"""From a plan to its bytes: what is too large goes by link, where the policy lets it.

Between the pure steps of the policy and the transaction: keys of the ring are read
here, and nothing is written (but for the first key of all, on its own connection).
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from delivery.statuses import RecipientField
from mailboxes.recipients import Party
from mailboxes.statuses import KeyPurpose
from outbound.compose import ComposedMessage, ComposeInput, Mailbox, compose
from outbound.draft import Draft
from outbound.links import LinkedFile, LinkTarget, files_to_link, mint_link, with_links
from outbound.mime import Attachment
from outbound.plan import PlannedFile, PlannedRecipient, SendPlan
from outbound.policy import LARGEST_MESSAGE, check_size
from outbound.signing import Signer, reply_address

UNNAMED: Final = "file"


@dataclass(frozen=True, slots=True)
class Links:
    """How links are made: where they lead, and how long they are good for."""

    base_url: str
    lifetime: timedelta


def reply_to_of(draft: Draft, seq: int, *, sign: Signer) -> Party | None:
    """Return the Reply-To that brings answers back to the thread; None without one."""
    facts = draft.facts
    address = reply_address(draft.from_, seq, identity_id=facts.identity_id, sign=sign)
    return Party(address, facts.display_name) if address else None


def compose_plan(
    plan: SendPlan, *, links: Links | None, sign: Signer
) -> tuple[SendPlan, ComposedMessage]:
    """Return the plan as it goes out, and its bytes (step 17).

    With ``links``, the largest files leave until the rest fits. Raises MessageTooLarge.
    """
    composed = compose(to_compose(plan))
    if links is not None and plan.files and len(composed.mime) > LARGEST_MESSAGE:
        plan, composed = _linked(plan, links, sign)
    check_size(composed.mime)
    return plan, composed


def to_compose(plan: SendPlan) -> ComposeInput:
    """Return what the message says; BCC recipients and linked files are no part."""
    return ComposeInput(
        message_id=plan.message_id,
        sent_at=plan.now,
        from_=Mailbox(plan.from_address, plan.from_name),
        reply_to=_mailbox(plan.reply_to) if plan.reply_to else None,
        subject=plan.subject,
        to=_mailboxes(plan.in_field(RecipientField.TO)),
        cc=_mailboxes(plan.in_field(RecipientField.CC)),
        text=plan.text,
        html=plan.html,
        headers=plan.headers,
        attachments=tuple(p.file for p in plan.files if not p.is_linked),
        in_reply_to=plan.in_reply_to,
        references=plan.references,
    )


def _linked(
    plan: SendPlan, links: Links, sign: Signer
) -> tuple[SendPlan, ComposedMessage]:
    kid, key = sign(KeyPurpose.LINK)
    expires_at = plan.now + links.lifetime

    def without(chosen: Iterable[int]) -> SendPlan:
        gone = frozenset(chosen)
        files = tuple(
            replace(planned, is_linked=n in gone)
            for n, planned in enumerate(plan.files)
        )
        listed = [
            _link(plan, planned, links, expires_at, kid=kid, key=key)
            for planned in files
            if planned.is_linked
        ]
        return replace(plan, files=files, bodies=with_links(plan.bodies, listed))

    found = files_to_link(
        [len(planned.file.content) for planned in plan.files],
        embedded=[_is_embedded(plan, planned.file) for planned in plan.files],
        composed_size=lambda chosen: len(compose(to_compose(without(chosen))).mime),
        limit=LARGEST_MESSAGE,
    )
    chosen = found if found is not None else range(len(plan.files))
    final = without(chosen)
    return final, compose(to_compose(final))


def _link(
    plan: SendPlan,
    planned: PlannedFile,
    links: Links,
    expires_at: datetime,
    *,
    kid: str,
    key: bytes,
) -> LinkedFile:
    target = LinkTarget(
        plan.tenant_id, plan.identity_id, plan.message_id, planned.id, expires_at
    )
    return LinkedFile(
        filename=planned.file.filename or UNNAMED,
        size=len(planned.file.content),
        url=f"{links.base_url}/v1/links/{mint_link(target, kid=kid, key=key)}",
        expires_at=expires_at,
    )


def _is_embedded(plan: SendPlan, file: Attachment) -> bool:
    return plan.html is not None and file.disposition == "inline"


def _mailboxes(recipients: Iterable[PlannedRecipient]) -> tuple[Mailbox, ...]:
    return tuple(Mailbox(r.address, r.name or "") for r in recipients)


def _mailbox(party: Party) -> Mailbox:
    return Mailbox(party.address, party.name or "")
