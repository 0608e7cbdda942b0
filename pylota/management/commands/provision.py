"""``manage.py provision``: make or find what a first send needs."""

import json
from argparse import ArgumentParser
from dataclasses import asdict
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from core.errors import PylotaError
from domains.names import normal_name
from domains.relay import RelaySettings, parse_relay_url
from mailboxes.statuses import TenantMode
from pylota.provisioning import RelayDomain, provision, provision_platform_key


class Command(BaseCommand):
    """Make or find a tenant, an identity that can send, its address, and a new key."""

    help = (
        "Make or find a tenant and an identity that can send, and make a new API key "
        "for the tenant. A second run finds what the first one made."
    )
    requires_migrations_checks = False

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Declare the flags; --platform-key stands alone."""
        parser.add_argument("--tenant", metavar="SLUG", help="2 to 32 of a-z 0-9 -")
        parser.add_argument("--mode", choices=TenantMode.values)
        parser.add_argument("--identity", metavar="USER", help="the sender's user name")
        parser.add_argument(
            "--domain",
            metavar="NAME",
            help="send from USER@NAME through --relay; taken as proved in PM_ENV=local",
        )
        parser.add_argument(
            "--relay",
            metavar="URL",
            help="smtps://user:password@host:port (TLS) or smtp://… (STARTTLS)",
        )
        parser.add_argument("--json", action="store_true", help="print one JSON object")
        parser.add_argument(
            "--platform-key",
            action="store_true",
            help="make a platform key with every scope, which ends after 24 h",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        """Do it in one transaction and print what was made or found."""
        try:
            made = self._platform_key(options) or self._tenant(options)
        except (PylotaError, ValueError) as error:
            raise CommandError(str(error)) from None
        if options["json"]:
            self.stdout.write(json.dumps(made))
            return
        for name, value in made.items():
            self.stdout.write(f"{name:<12}  {value}")

    def _platform_key(self, options: dict[str, Any]) -> dict[str, str] | None:
        if not options["platform_key"]:
            return None
        others = ("tenant", "mode", "identity", "domain", "relay")
        if given := [f"--{name}" for name in others if options[name]]:
            raise CommandError(f"--platform-key stands alone, without {given[0]}")
        return {"api_key": provision_platform_key()}

    def _tenant(self, options: dict[str, Any]) -> dict[str, str]:
        for name in ("tenant", "mode", "identity"):
            if not options[name]:
                raise CommandError(f"--{name} is needed (or --platform-key alone)")
        made = provision(
            tenant=options["tenant"],
            mode=TenantMode(options["mode"]),
            username=options["identity"],
            own_domain=_own_domain(options["domain"], options["relay"]),
        )
        return asdict(made)


def _own_domain(domain: str | None, relay: str | None) -> RelayDomain | None:
    if domain is None:
        if relay is not None:
            raise CommandError("--relay needs --domain: whose mail does it carry?")
        return None
    name = normal_name(domain)
    return RelayDomain(name, _relay(relay, f"postmaster@{name}"))


def _relay(url: str | None, probe_from: str) -> RelaySettings | None:
    if url is None:
        return None
    try:
        return parse_relay_url(url, probe_from=probe_from, is_local=settings.LOCAL)
    except ValueError as error:
        raise CommandError(f"--relay {error}") from None
