"""``manage.py docs``: write the generated pages of docs/, or compare them."""

import json
from argparse import ArgumentParser
from collections.abc import Callable, Mapping
from typing import Any, Final

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from drf_spectacular.drainage import GENERATOR_STATS

from pylota.api.views import describe
from pylota.states_page import states_document


def openapi_document() -> str:
    """Return the description of the API; CommandError if part of it is a guess."""
    with GENERATOR_STATS.silence():
        text = json.dumps(describe(), indent=2, ensure_ascii=False) + "\n"
    if GENERATOR_STATS:
        GENERATOR_STATS.emit_summary()
        raise CommandError("a route is not described: see above")
    return text


PAGES: Final[Mapping[str, Callable[[], str]]] = {
    "states.md": states_document,
    "openapi.json": openapi_document,
}


class Command(BaseCommand):
    """Write what is generated from the code, so that it cannot lie."""

    help = "Write the generated pages of docs/; --check compares them instead."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Declare the one flag."""
        parser.add_argument("--check", action="store_true")

    def handle(self, *args: Any, **options: Any) -> None:
        """Write or compare each page."""
        for name, document in PAGES.items():
            page, text = settings.ROOT / "docs" / name, document()
            if not options["check"]:
                page.write_text(text)
            elif not page.exists() or page.read_text() != text:
                raise CommandError(f"docs/{name} is out of date: run make docs")
