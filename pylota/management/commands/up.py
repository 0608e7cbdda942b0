"""``manage.py up``: web, worker and beat in the foreground; Ctrl-C ends all."""

import sys
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.core.management.base import BaseCommand, CommandError, CommandParser

from pylota.deployment import Deployment, short
from pylota.supervisor import StartFailed
from pylota.terminal import Terminal
from pylota.web import port_number


class Command(BaseCommand):
    """Run everything on this machine."""

    help = "Run web, worker and beat in the foreground, with embedded services."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        """Take the address to serve on."""
        parser.add_argument(
            "--port", type=port_number, default=8000, help="0 takes a free one"
        )
        parser.add_argument("--host", default="127.0.0.1")

    def handle(self, *, port: int, host: str, **_: Any) -> None:
        """Start, then serve until a signal comes."""
        terminal = Terminal(self.stdout)
        try:
            with Deployment(
                port=port, host=host, say=terminal.say, begin=terminal.begin
            ) as deployment:
                terminal.say(f"next    {first_step()}")
                terminal.say("stop    Ctrl-C")
                deployment.wait()
        except (StartFailed, ImproperlyConfigured) as error:
            raise CommandError(str(error)) from None
        terminal.say("stopped")


def first_step() -> str:
    """Return the command that makes an identity and a key, to copy into a shell."""
    local = "PM_ENV=local " if settings.LOCAL else ""
    python, manage = short(Path(sys.executable)), short(settings.ROOT / "manage.py")
    return (
        f"{local}{python} {manage} provision"
        " --tenant acme --mode live --identity bookings"
    )
