"""``manage.py doctor``: what is wrong with this deployment, and what to do next."""

import json
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from pylota.doctor.examination import examine
from pylota.doctor.findings import Finding
from pylota.terminal import Terminal


class Command(BaseCommand):
    """Look at each part of the deployment; exit 1 if one fails."""

    help = "Look at each part of this deployment, one line each; exit 1 if one fails."
    requires_system_checks: list[str] = []
    requires_migrations_checks = False

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Declare the one flag."""
        parser.add_argument("--json", action="store_true", help="print one JSON object")

    def handle(self, *args: Any, **options: Any) -> None:
        """Print what is found as it is found, or all of it as JSON."""
        found = self._as_json() if options["json"] else self._as_lines()
        if bad := [finding for finding in found if finding.is_bad]:
            raise CommandError(f"{len(bad)} of {len(found)} checks failed")

    def _as_json(self) -> list[Finding]:
        found = list(examine())
        is_well = not any(finding.is_bad for finding in found)
        checks = [finding.to_json() for finding in found]
        self.stdout.write(json.dumps({"ok": is_well, "checks": checks}))
        return found

    def _as_lines(self) -> list[Finding]:
        terminal = Terminal(self.stdout)
        found = []
        for finding in examine(begin=terminal.begin):
            terminal.say(finding.line())
            found.append(finding)
        return found
