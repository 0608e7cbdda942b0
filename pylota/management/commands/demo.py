"""``manage.py demo``: watch one mail leave once, then serve until Ctrl-C."""

import secrets
from argparse import ArgumentParser
from typing import Any

from django.conf import settings
from django.contrib.auth.models import User
from django.core.exceptions import ImproperlyConfigured
from django.core.management.base import BaseCommand, CommandError
from django.db import connection

from mailboxes.statuses import TenantMode
from pylota.catcher.store import caught
from pylota.demo import Demo, DemoFailed, Mailbox, how_to_go_on
from pylota.deployment import Deployment, catcher_is_wanted
from pylota.provisioning import Provisioned, provision
from pylota.supervisor import StartFailed
from pylota.terminal import Terminal
from pylota.web import port_number


class Command(BaseCommand):
    """Start everything, send one mail although it is asked for twice, and serve."""

    help = "Start everything, send one mail twice under one key, then serve."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Declare the port; a busy default makes way for a free one."""
        parser.add_argument(
            "--port", type=port_number, help="8000, or a free one if it is not"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        """Show each step on one line; an unexpected end of a step is an error."""
        if not catcher_is_wanted():
            raise CommandError(
                "the demo mails to its own catcher: run it with PM_ENV=local, and "
                "without PM_PLATFORM_TRANSPORT and PM_PLATFORM_RELAY_URL"
            )
        terminal = Terminal(self.stdout)
        try:
            with Deployment(
                port=8000 if options["port"] is None else options["port"],
                may_move=options["port"] is None,
                say=terminal.say,
                begin=terminal.begin,
            ) as deployment:
                self._show(deployment, terminal)
                deployment.wait()
        except (StartFailed, ImproperlyConfigured, DemoFailed) as error:
            raise CommandError(str(error)) from None
        terminal.say("stopped")

    def _show(self, deployment: Deployment, terminal: Terminal) -> None:
        live = _identity("demo", TenantMode.LIVE)
        test = _identity("demo-test", TenantMode.TEST)
        password = _admin()
        connection.close()  # from here on, the public API only
        terminal.say("")
        number = Demo(
            live=_mailbox(deployment, live),
            test=_mailbox(deployment, test),
            mail=caught(settings.PM_DATA_DIR),
            base_url=deployment.url,
            say=terminal.say,
        ).run()
        terminal.say("")
        for line in how_to_go_on(
            deployment.url, live, password=password, number=number
        ):
            terminal.say(line)


def _identity(tenant: str, mode: TenantMode) -> Provisioned:
    return provision(tenant=tenant, mode=mode, username="bookings", own_domain=None)


def _mailbox(deployment: Deployment, made: Provisioned) -> Mailbox:
    return Mailbox(deployment.host, deployment.port, made.identity_id, made.api_key)


def _admin() -> str:
    """Give the admin's user a new password, and return it."""
    password = secrets.token_urlsafe(9)
    user, _ = User.objects.get_or_create(
        username="admin", defaults={"is_staff": True, "is_superuser": True}
    )
    user.set_password(password)
    user.save(update_fields=["password"])
    return password
