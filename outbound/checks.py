"""Pure: who may send, to whom, and as whom (steps 1-10 and 13-15 of the policy)."""

from collections.abc import Iterator
from typing import Final

from core.addresses import domain_of, normalize
from core.errors import (
    AddressInvalid,
    AddressUnsupported,
    FieldError,
    IdentityNotFound,
    InvalidRequest,
)
from core.text import display_name_fault
from delivery.statuses import RecipientField
from domains.statuses import NOT_READY, Transport
from mailboxes.policy import max_recipients
from mailboxes.statuses import (
    AddressRole,
    AddressStatus,
    IdentityStatus,
    MessageKind,
    TenantMode,
    TenantStatus,
)
from outbound.draft import Draft
from outbound.errors import (
    AutoReplyNotAllowed,
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
from outbound.plan import OwnAddress, PlannedRecipient

SIMULATOR_DOMAIN: Final = "simulator.invalid"
UNCONFIGURED: Final = {
    Transport.SES: "ses_not_configured",
    Transport.CLOUDFLARE: "cloudflare_not_configured",
}
"""Transports that have no adapter yet, and the reason that a caller is given."""


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
    """Step 8: until mail can loop back inside, the simulator is all there is."""
    if draft.facts.tenant_mode != TenantMode.TEST:
        return
    outside = [
        FieldError(recipient.field, "A test tenant cannot write to this address.")
        for recipient in draft.recipients
        if domain_of(recipient.address) != SIMULATOR_DOMAIN
    ]
    if outside:
        refusal = TestModeRecipient("A test tenant writes to the simulator only.")
        raise placed(refusal, *outside)


def marketing(draft: Draft) -> None:
    """Step 9: no request can carry a way out yet, so marketing is refused."""
    if MessageKind(draft.request.kind) == MessageKind.MARKETING:
        raise MarketingRequirementsMissing("Marketing needs unsubscribe and consent.")


def auto_reply(draft: Draft) -> None:
    """Step 10: a plain send answers nothing."""
    if MessageKind(draft.request.kind) == MessageKind.AUTO_REPLY:
        raise AutoReplyNotAllowed("Only a reply can be an automatic one.")


def sender(draft: Draft) -> None:
    """Step 13: the address that was named, or the primary one."""
    draft.sender = _named(draft) if draft.request.from_address else _primary(draft)


def domain_is_ready(draft: Draft) -> None:
    """Step 14."""
    assert draft.sender is not None  # noqa: S101  step 13 sets or refuses
    if draft.sender.domain_state in NOT_READY:
        raise DomainNotReady("The sending domain is not verified yet.")
    if draft.sender.status == AddressStatus.PENDING:
        raise DomainNotReady("The sending address is not active yet.")


def transport_is_there(draft: Draft) -> None:
    """Step 15; a test tenant reaches no transport."""
    assert draft.sender is not None  # noqa: S101  step 13 sets or refuses
    reason = UNCONFIGURED.get(draft.sender.transport)
    if reason is not None and draft.facts.tenant_mode == TenantMode.LIVE:
        raise TransportUnavailable(
            "The domain's transport is not configured.", details={"reason": reason}
        )


def _requested(draft: Draft) -> Iterator[PlannedRecipient]:
    for field in RecipientField:
        for index, wanted in enumerate(getattr(draft.request, field)):
            path = f"{field}[{index}]"
            name = wanted.name or None
            if name is not None and (fault := display_name_fault(name)) is not None:
                raise InvalidRequest.at(f"{path}.name", f"The name {fault}.")
            yield PlannedRecipient(_address(wanted.address, path), name, field)


def _address(raw: str, path: str) -> str:
    try:
        return normalize(raw)
    except (AddressInvalid, AddressUnsupported) as refusal:
        message = f"{refusal.detail[:1].upper()}{refusal.detail[1:]}."
        named = type(refusal)(message)
        raise placed(named, FieldError(path, message)) from None


def _named(draft: Draft) -> OwnAddress:
    try:
        wanted = normalize(draft.request.from_address or "")
    except (AddressInvalid, AddressUnsupported):
        wanted = ""
    for own in draft.facts.addresses:
        if own.address == wanted and own.status != AddressStatus.RETIRING:
            return own
    raise InvalidRequest.at(
        "from_address", "This is no active address of the identity."
    )


def _primary(draft: Draft) -> OwnAddress:
    for own in draft.facts.addresses:
        if own.role == AddressRole.PRIMARY:
            return own
    raise InvalidRequest.at("from_address", "The identity has no primary address.")
