"""How long the pages of the admin take, with 100,000 messages and 1,000 in doubt.

``python -m bench.pages`` fills the database of ``DATABASE_URL`` with a made-up
deployment, unless it has one already, opens every list, the newest record of each, the
front page and the queue of uncertain sends, and prints the median of five with the
statements that each made. It exits with 1 if a page takes more than 200 ms.
"""

import os
import sys
import time
from collections.abc import Iterator
from statistics import median
from typing import Any, Final

MESSAGES: Final = "100000"
UNCERTAIN: Final = "1000"
ROUNDS: Final = 5
GOAL_MS: Final = 200.0


def main() -> int:
    """Measure; return the exit code."""
    os.environ.setdefault("PM_ENV", "local")
    os.environ.setdefault("PM_LOG_LEVEL", "error")
    os.environ["DJANGO_SETTINGS_MODULE"] = "pylota.settings"
    import django

    django.setup()
    fill()
    client = logged_in()
    slow = 0
    for name, path in pages():
        took, statements = measured(client, path)
        slow += took > GOAL_MS
        sys.stdout.write(f"{name:<28} {took:7.1f} ms  {statements:3d} statements\n")
    sys.stdout.write(f"pages over {GOAL_MS:.0f} ms: {slow}\n")
    return 1 if slow else 0


def fill() -> None:
    """Let there be a deployment to look at."""
    from django.core.management import call_command
    from django.db import connection

    from pylota.demo_data.build import found

    call_command("migrate", verbosity=0)
    if found() is None:
        call_command("demo_data", messages=int(MESSAGES), uncertain=int(UNCERTAIN))
    with connection.cursor() as cursor:
        cursor.execute("SET statement_timeout = 0")
        cursor.execute("ANALYZE")


def logged_in() -> Any:
    """Return the browser of somebody who may see everything."""
    from django.contrib.auth.models import User
    from django.test import Client

    user, _ = User.objects.get_or_create(
        username="bench", defaults={"is_staff": True, "is_superuser": True}
    )
    client = Client(HTTP_HOST="127.0.0.1")
    client.force_login(user, backend="django.contrib.auth.backends.ModelBackend")
    return client


def pages() -> Iterator[tuple[str, str]]:
    """Return each page's name and path."""
    from django.contrib import admin
    from django.urls import reverse

    import pylota.urls  # noqa: F401  the admin's pages are found there
    from core.admin import ReadOnlyAdmin

    yield "front page", reverse("admin:index")
    for model, page in admin.site._registry.items():
        if not isinstance(page, ReadOnlyAdmin):
            continue
        place = f"admin:{model._meta.app_label}_{model._meta.model_name}"
        name = str(model._meta.verbose_name)
        yield f"{name}: list", reverse(f"{place}_changelist")
        newest = model._default_manager.order_by("pk").last()
        if newest is not None:
            yield f"{name}: one", reverse(f"{place}_change", args=(newest.pk,))


def measured(client: Any, path: str) -> tuple[float, int]:
    """Return the median of some calls in milliseconds, and the statements of one."""
    from django.db import connection
    from django.test.utils import CaptureQueriesContext

    took = []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        answer = client.get(path)
        took.append((time.perf_counter() - began) * 1000)
        if answer.status_code not in (200, 302):
            raise SystemExit(f"GET {path} answered {answer.status_code}")
    with CaptureQueriesContext(connection) as asked:
        client.get(path)
    return median(took), len(asked)


if __name__ == "__main__":
    sys.exit(main())
