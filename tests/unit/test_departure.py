"""May a message leave now, and by which way: every row, without a database."""

from dataclasses import replace

import pytest

from domains.statuses import DomainKind, DomainState, Transport
from mailboxes.statuses import (
    IdentityStatus,
    MessageKind,
    Provider,
    TenantMode,
    TenantStatus,
)
from outbound.departure import (
    Depart,
    Departure,
    DepartureFacts,
    PlatformFacts,
    Refuse,
    Stop,
    Wait,
    departure,
)

PLATFORM = PlatformFacts(DomainState.HEALTHY, Transport.CLOUDFLARE, is_configured=True)
WELL = DepartureFacts(
    identity_status=IdentityStatus.ACTIVE,
    tenant_status=TenantStatus.ACTIVE,
    tenant_mode=TenantMode.LIVE,
    domain_state=DomainState.HEALTHY,
    domain_kind=DomainKind.EXTERNAL,
    transport=Transport.SES,
    may_fall_back=True,
    is_configured=True,
    platform=PLATFORM,
)
FAILING = replace(WELL, domain_state=DomainState.FAILING)
HELD_BACK = replace(WELL, is_held_back=True)
NO_FALLBACK = Refuse("failed", "domain_failing_no_fallback")
BY_CLOUDFLARE = Depart(Provider.CLOUDFLARE, falls_back=True)


@pytest.mark.parametrize(
    ("facts", "becomes"),
    [
        (WELL, Depart(Provider.SES)),
        (replace(WELL, domain_state=DomainState.DEGRADED), Depart(Provider.SES)),
        (replace(WELL, is_configured=False), Wait("ses_not_configured")),
        (FAILING, BY_CLOUDFLARE),
        (replace(FAILING, domain_state=DomainState.SUSPENDED), BY_CLOUDFLARE),
        (replace(FAILING, is_configured=False), BY_CLOUDFLARE),
        (HELD_BACK, BY_CLOUDFLARE),
        (replace(FAILING, may_fall_back=False), NO_FALLBACK),
        (replace(HELD_BACK, may_fall_back=False), NO_FALLBACK),
        (replace(FAILING, platform=None), NO_FALLBACK),
        (replace(FAILING, domain_kind=DomainKind.PLATFORM), NO_FALLBACK),
        # the platform's own mail asks the account itself
        (replace(HELD_BACK, domain_kind=DomainKind.PLATFORM), Depart(Provider.SES)),
        (
            replace(FAILING, platform=replace(PLATFORM, state=DomainState.FAILING)),
            NO_FALLBACK,
        ),
        (
            replace(FAILING, platform=replace(PLATFORM, is_configured=False)),
            Wait("cloudflare_not_configured"),
        ),
        (
            replace(HELD_BACK, platform=replace(PLATFORM, transport=Transport.SES)),
            Wait("account_held_back"),
        ),
        (
            replace(FAILING, platform=replace(PLATFORM, transport=Transport.SES)),
            Depart(Provider.SES, falls_back=True),
        ),
        (
            replace(FAILING, kind=MessageKind.MARKETING),
            Refuse("rejected", "marketing_needs_ses"),
        ),
        (
            replace(WELL, domain_state=DomainState.REMOVED),
            Refuse("rejected", "sender_domain_unavailable"),
        ),
        (
            replace(HELD_BACK, domain_state=DomainState.REMOVING),
            Refuse("rejected", "sender_domain_unavailable"),
        ),
        (
            replace(HELD_BACK, domain_state=DomainState.VERIFYING),
            Wait("domain_not_ready"),
        ),
        (
            replace(FAILING, domain_state=DomainState.PENDING),
            Wait("domain_not_ready"),
        ),
        (
            replace(FAILING, tenant_status=TenantStatus.SUSPENDED),
            Stop("tenant_suspended"),
        ),
        (
            replace(FAILING, identity_status=IdentityStatus.PAUSED),
            Stop("identity_paused"),
        ),
    ],
)
def test_what_becomes_of_a_message_that_is_due(
    facts: DepartureFacts, becomes: Departure
) -> None:
    assert departure(facts) == becomes


@pytest.mark.parametrize("state", DomainState)
@pytest.mark.parametrize("transport", Transport)
@pytest.mark.parametrize("is_held_back", [True, False])
def test_a_test_tenant_departs_by_no_provider_in_any_state(
    state: DomainState, transport: Transport, is_held_back: bool
) -> None:
    facts = replace(
        WELL,
        tenant_mode=TenantMode.TEST,
        domain_state=state,
        transport=transport,
        is_held_back=is_held_back,
    )

    way = departure(facts)

    if isinstance(way, Depart):
        real = {Provider.CLOUDFLARE, Provider.SES, Provider.SMTP}
        assert way.provider not in real
        assert way.falls_back == (state in (DomainState.FAILING, DomainState.SUSPENDED))
