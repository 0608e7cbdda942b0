"""Pure: who may send, to whom, and as whom (steps 1-9 and 13-16 of the policy)."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from typing import Final

from core.addresses import normalize_at
from core.errors import FieldError, IdentityNotFound, InvalidRequest
from core.text import display_name_fault
from delivery.statuses import RecipientField
from domains.statuses import NOT_READY
from mailboxes.policy import max_recipients
from mailboxes.statuses import (
    AddressStatus,
    IdentityStatus,
    MessageKind,
    TenantMode,
    TenantStatus,
)
from outbound.answering import ANSWERS, answer_parties
from outbound.draft import Draft
from outbound.errors import (
    DomainNotReady,
    IdentityOwnerRequired,
    IdentityPaused,
    MarketingRequirementsMissing,
    TenantSuspended,
    TestModeRecipient,
    TooManyRecipients,
    TransportUnavailable,
    placed,
)
from outbound.from_choice import choose_from
from outbound.plan import OwnAddress, PlannedRecipient
from outbound.requests import ConsentInput
from outbound.transports.simulator import is_simulated
from outbound.unsubscribe import Unsubscribe, unsubscribe_faults
from outbound.ways import MARKETING_NEEDS_SES, WAYS, is_marketing_refused
from suppressions.filters import filter_recipients

BASIS_BYTES: Final = 512
"""Octets of the words that say why a reader may be written to."""


def identity_is_there(draft: Draft) -> None:
    """Step 1: an identity that is being deleted is not there."""
    gone = (IdentityStatus.DELETING, IdentityStatus.DELETED)
    if draft.facts.identity_status in gone:
        raise IdentityNotFound("No such identity.")


def tenant_is_active(draft: Draft) -> None:
    """Step 2, before the pause: a suspension pauses every identity as well."""
    if draft.facts.tenant_status == TenantStatus.SUSPENDED:
        raise TenantSuspended("The tenant is suspended.")


def identity_is_active(draft: Draft) -> None:
    """Step 3."""
    if draft.facts.identity_status == IdentityStatus.PAUSED:
        reason = draft.facts.pause_reason
        raise IdentityPaused("The identity is paused.", details={"reason": reason})


def somebody_is_accountable(draft: Draft) -> None:
    """Step 4."""
    if not draft.facts.owner_name or not draft.facts.owner_email:
        raise IdentityOwnerRequired("The identity has no accountable owner.")


def recipients(draft: Draft) -> None:
    """Step 6: normalise; named twice, an address counts once, to before cc and bcc."""
    found: dict[str, PlannedRecipient] = {}
    for recipient in _requested(draft):
        found.setdefault(recipient.address, recipient)
    if not found:
        raise InvalidRequest.at("to", "Name at least one recipient.")
    draft.recipients = tuple(found.values())


def not_too_many(draft: Draft) -> None:
    """Step 7."""
    most = max_recipients(draft.facts.policy)
    if (count := len(draft.recipients)) > most:
        raise TooManyRecipients(
            f"The message has {count} recipients; {most} is the most.",
            details={"limit": most},
        )


def test_mode(draft: Draft) -> None:
    """Step 8: the simulator, and addresses of this deployment: anybody's, at that."""
    if draft.facts.tenant_mode != TenantMode.TEST:
        return
    outside = [
        FieldError(recipient.field, "A test tenant cannot write to this address.")
        for recipient in draft.recipients
        if not is_simulated(recipient.address)
        and recipient.address not in draft.filters.inside
    ]
    if outside:
        refusal = TestModeRecipient(
            "A test tenant writes to the simulator and to addresses of this deployment."
        )
        raise placed(refusal, *outside)


def marketing(draft: Draft) -> None:
    """Step 9: marketing says how to get off the list, and why it may be sent."""
    if draft.kind != MessageKind.MARKETING:
        return
    given = draft.request.unsubscribe
    wanted = Unsubscribe(given.url, given.mailto) if given else None
    faults = [*unsubscribe_faults(wanted), *_consent_faults(draft.request.consent)]
    if faults:
        refusal = MarketingRequirementsMissing(
            "Marketing needs an unsubscribe and a consent."
        )
        raise placed(refusal, *faults)
    draft.unsubscribe = wanted


def sender(draft: Draft) -> None:
    """Step 13: the address that was named, the thread's own, or the primary one."""
    thread = draft.facts.thread
    choice = choose_from(
        draft.facts.addresses,
        wanted=draft.request.from_address,
        thread=thread.sender if thread else None,
        now=draft.facts.now,
    )
    draft.unpins = choice.unpins
    draft.sender = next(
        own for own in draft.facts.addresses if own.address == choice.address
    )


def domain_is_ready(draft: Draft) -> None:
    """Step 14."""
    if draft.from_.domain_state in NOT_READY:
        raise DomainNotReady("The sending domain is not verified yet.")
    if draft.from_.status == AddressStatus.PENDING:
        raise DomainNotReady("The sending address is not active yet.")


def transport_is_there(draft: Draft) -> None:
    """Step 15; a test tenant reaches no transport."""
    if draft.facts.tenant_mode != TenantMode.LIVE:
        return
    if (reason := _transport_fault(draft.from_, draft.kind)) is not None:
        raise TransportUnavailable(
            "The domain's transport cannot take this message.",
            details={"reason": reason},
        )


def set_aside(draft: Draft) -> None:
    """Step 16: recipients that may not be written to; never an error."""
    rules = draft.facts
    require_known = rules.send_policy.get("require_known_recipient", False)
    draft.filtered = filter_recipients(
        [recipient.address for recipient in draft.recipients],
        draft.filters,
        allowlist_only=bool(rules.policy["send_allowlist_only"]),
        require_known=bool(require_known) and not rules.is_system,
    )
    draft.recipients = tuple(
        replace(recipient, reason=str(found.reason), smtp_response=found.smtp_response)
        if (found := draft.filtered.get(recipient.address))
        else recipient
        for recipient in draft.recipients
    )


def _requested(draft: Draft) -> Iterator[PlannedRecipient]:
    if draft.operation in ANSWERS:
        yield from answer_parties(draft)
        return
    for field in RecipientField:
        for index, wanted in enumerate(getattr(draft.request, field)):
            path = f"{field}[{index}]"
            name = wanted.name or None
            if name is not None and (fault := display_name_fault(name)) is not None:
                raise InvalidRequest.at(f"{path}.name", f"The name {fault}.")
            yield PlannedRecipient(normalize_at(wanted.address, path), name, field)


def _transport_fault(sender: OwnAddress, kind: MessageKind) -> str | None:
    if is_marketing_refused(kind, sender.transport):
        return MARKETING_NEEDS_SES
    return None if sender.is_configured else WAYS[sender.transport].closed


def _consent_faults(consent: ConsentInput | None) -> Iterator[FieldError]:
    if consent is None:
        yield FieldError("consent", "Marketing says why it may be sent.")
        return
    if not consent.basis.strip() or len(consent.basis.encode()) > BASIS_BYTES:
        yield FieldError("consent.basis", f"Words, at most {BASIS_BYTES} bytes.")
    if not _is_instant(consent.recorded_at):
        yield FieldError("consent.recorded_at", "An instant with its zone (RFC 3339).")


def _is_instant(text: str) -> bool:
    try:
        return len(text) <= 40 and datetime.fromisoformat(text).tzinfo is not None
    except ValueError:
        return False
