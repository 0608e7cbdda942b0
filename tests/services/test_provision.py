"""``manage.py provision`` gives a newcomer all that a first send needs."""

import json
from io import StringIO
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command
from pytest_django import Settings

from core.clock import database_now
from domains.models import Domain
from domains.services import platform_relay, relay_of
from mailboxes.models import Address, ApiKey, Identity, Tenant
from mailboxes.scopes import allowed_at
from mailboxes.statuses import KeyLevel
from quota.billing_services import BillingChange, change_billing
from quota.models import Allowance, QuotaAccount
from quota.statuses import BillingMode, Feature
from tests.factories import DomainFactory

pytestmark = pytest.mark.django_db

RELAY = "smtps://acme:s3cret@127.0.0.1:4650"


@pytest.fixture
def in_production(settings: Settings) -> None:
    """Pretend that this deployment is not the local environment."""
    settings.LOCAL = False


def provision(*flags: str) -> dict[str, str]:
    """Run the command with --json and return what it printed."""
    out = StringIO()
    call_command("provision", *flags, "--json", stdout=out)
    printed: dict[str, str] = json.loads(out.getvalue())
    return printed


def acme(*more: str, mode: str = "live") -> dict[str, str]:
    return provision(
        "--tenant", "acme", "--mode", mode, "--identity", "bookings", *more
    )


def test_it_makes_an_identity_that_can_send_and_a_key_with_every_scope() -> None:
    made = acme()

    assert list(made) == (
        ["tenant_id", "identity_id", "address", "domain_id", "api_key", "base_url"]
    )
    assert made["address"] == "bookings.acme@agents.test"
    identity = Identity.objects.get(id=made["identity_id"])
    assert identity.owner_name
    assert identity.owner_email
    assert identity.mailbox.next_event_seq >= 1
    assert Address.objects.get(identity=identity).role == "primary"
    assert QuotaAccount.objects.filter(tenant_id=made["tenant_id"]).exists()
    allowances = Allowance.objects.filter(tenant_id=made["tenant_id"])
    assert set(allowances.values_list("feature", "granted")) == {
        (feature, None) for feature in Feature.values
    }
    key = ApiKey.objects.get(lookup=made["api_key"].split("_")[2])
    assert (key.tenant_id, key.identity_id) == (made["tenant_id"], None)
    assert set(key.permissions) == {str(s) for s in allowed_at(KeyLevel.TENANT)}


def test_a_second_run_finds_everything_and_makes_only_a_new_key() -> None:
    first, second = acme(), acme()

    assert second.pop("api_key") != first.pop("api_key")
    assert second == first
    assert Tenant.objects.count() == Identity.objects.count() == 1
    assert Domain.objects.count() == Address.objects.count() == 1
    assert ApiKey.objects.count() == 2


def test_without_json_each_value_stands_on_its_line() -> None:
    out = StringIO()

    call_command(
        "provision", "--tenant=acme", "--mode=test", "--identity=b", stdout=out
    )

    assert "address       b.acme@agents.test\n" in out.getvalue()
    assert "api_key       pmk_test_" in out.getvalue()


def test_a_domain_with_its_relay_becomes_the_primary_address() -> None:
    made = acme("--domain", "Mail.Acme.example", "--relay", RELAY)

    assert made["address"] == "bookings@mail.acme.example"
    domain = Domain.objects.get(id=made["domain_id"])
    assert (domain.method, domain.state) == ("smtp_relay", "healthy")
    relay = relay_of(domain)
    assert relay is not None
    assert (relay.host, relay.port, relay.implicit_tls) == ("127.0.0.1", 4650, True)
    assert (relay.username, relay.password) == ("acme", "s3cret")
    assert relay.probe_from == "postmaster@mail.acme.example"
    assert "s3cret" not in str(domain.smtp_sealed)
    roles = Address.objects.filter(identity_id=made["identity_id"])
    assert dict(roles.values_list("address", "role")) == {
        "bookings@mail.acme.example": "primary",
        "bookings.acme@agents.test": "alias",
    }


def test_a_domain_may_be_added_later_and_its_relay_changed() -> None:
    acme()
    acme("--domain", "acme.example", "--relay", RELAY)
    made = acme("--domain", "acme.example", "--relay", "smtp://x:y@127.0.0.1:2525")
    again = acme("--domain", "acme.example")

    assert again["domain_id"] == made["domain_id"]
    relay = relay_of(Domain.objects.get(id=made["domain_id"]))
    assert relay is not None
    assert (relay.port, relay.implicit_tls) == (2525, False)


@pytest.mark.usefixtures("in_production")
def test_outside_the_local_environment_a_domain_waits_for_its_proof() -> None:
    made = acme("--domain", "acme.example", "--relay", "smtps://u:p@smtp.acme.com")

    domain = Domain.objects.get(id=made["domain_id"])
    assert (domain.state, domain.ownership_verified_at) == ("pending", None)
    address = Address.objects.get(domain=domain)
    assert (address.role, address.status) == ("alias", "pending")


@pytest.mark.usefixtures("in_production")
def test_outside_the_local_environment_new_credentials_wait_for_a_probe() -> None:
    made = acme("--domain", "acme.example", "--relay", "smtps://u:old@smtp.acme.com")
    acme("--domain", "acme.example", "--relay", "smtps://u:new@smtp.acme.com")

    domain = Domain.objects.get(id=made["domain_id"])
    live = relay_of(domain)
    assert live is not None
    assert live.password == "old"
    assert domain.smtp_pending_sealed is not None


def test_a_platform_key_holds_every_scope_and_ends_after_a_day() -> None:
    made = provision("--platform-key")

    key = ApiKey.objects.get(lookup=made["api_key"].split("_")[2])
    assert key.level == "platform"
    assert set(key.permissions) == {str(s) for s in allowed_at(KeyLevel.PLATFORM)}
    assert key.expires_at is not None
    left = key.expires_at - database_now()
    assert 23.9 < left.total_seconds() / 3600 <= 24


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ((), "--tenant is needed"),
        (("--tenant", "acme", "--mode", "live"), "--identity is needed"),
        (("--platform-key", "--tenant", "acme"), "stands alone"),
        (("--mode", "sandbox"), "invalid choice"),
    ],
)
def test_missing_or_clashing_flags_are_named(
    flags: tuple[str, ...], words: str
) -> None:
    with pytest.raises(CommandError, match=words):
        provision(*flags)


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (("--relay", RELAY), "--relay needs --domain"),
        (("--domain", "acme.example"), "a new domain needs a relay"),
        (("--domain", "acme", "--relay", RELAY), "not a domain name"),
        (("--domain", "acme.example", "--relay", "smtp://u@h"), "user and a password"),
    ],
)
def test_a_domain_that_cannot_be_used_stores_nothing(
    more: tuple[str, ...], words: str
) -> None:
    with pytest.raises(CommandError, match=words):
        acme(*more)

    assert not Tenant.objects.exists()


def test_the_mode_of_a_tenant_stays() -> None:
    acme()

    with pytest.raises(CommandError, match="its mode is live"):
        acme(mode="test")


@pytest.mark.parametrize("slug", ["x", "Acme", "-acme", "a" * 33])
def test_a_tenant_needs_a_plain_name(slug: str) -> None:
    with pytest.raises(CommandError, match="2 to 32"):
        provision(f"--tenant={slug}", "--mode", "live", "--identity", "b")


def test_a_tenant_that_looks_like_another_is_refused() -> None:
    acme()

    with pytest.raises(CommandError, match="looks like, another tenant"):
        provision("--tenant", "acrne", "--mode", "live", "--identity", "b")


def test_another_tenants_domain_is_refused_without_saying_whose_it_is() -> None:
    other = DomainFactory.create(name="taken.example")

    with pytest.raises(CommandError) as refusal:
        acme("--domain", "taken.example", "--relay", RELAY)

    assert str(refusal.value) == "taken.example cannot be added"
    assert str(other.tenant) not in str(refusal.value)


def test_the_platform_relay_is_the_catcher_only_in_the_local_environment(
    settings: Settings, tmp_path: Path
) -> None:
    settings.PM_DATA_DIR = tmp_path
    assert platform_relay() is None

    settings.PM_PLATFORM_RELAY_URL = "smtp://u:p@smtp.relay.com"
    relay = platform_relay()
    assert relay is not None
    assert (relay.host, relay.port) == ("smtp.relay.com", 587)


def test_what_it_makes_counts_on_the_plan_and_is_limited_by_none(
    settings: Settings,
) -> None:
    made = acme()
    settings.PM_BILLING = "stripe"
    wanted = BillingChange(BillingMode.METERED)  # the free plan has no domain
    change_billing(made["tenant_id"], wanted, actor_key_id=None)

    def used() -> dict[str, int]:
        found = Allowance.objects.filter(tenant_id=made["tenant_id"])
        return dict(found.values_list("feature", "used"))

    assert used() == {**dict.fromkeys(Feature.values, 0), "inboxes": 1}
    for _ in range(2):
        acme("--domain", "acme.example", "--relay", RELAY)

    assert used() == {
        **dict.fromkeys(Feature.values, 0),
        "inboxes": 1,
        "custom_domains": 1,
    }
