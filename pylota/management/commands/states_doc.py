"""``manage.py states_doc``: write docs/states.md, or compare it."""

from argparse import ArgumentParser
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from pylota.states_doc import states_document


class Command(BaseCommand):
    """Write docs/states.md from the tables of the code, so that it cannot lie."""

    help = "Write docs/states.md from the code's tables; --check compares instead."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Declare the one flag."""
        parser.add_argument("--check", action="store_true")

    def handle(self, *args: Any, **options: Any) -> None:
        """Write or compare."""
        page = settings.ROOT / "docs" / "states.md"
        text = states_document()
        if not options["check"]:
            page.write_text(text)
        elif not page.exists() or page.read_text() != text:
            raise CommandError("docs/states.md is out of date: run make docs")
