"""How a made-up deployment is made, and when it is not."""

import json
from datetime import datetime
from io import StringIO

import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from pytest_django import Settings

from core.clock import database_now
from mailboxes.models import Tenant
from pylota.demo_data.draw import Draw
from pylota.demo_data.plan import plan
from pylota.demo_data.rows import copy_in, take_keys
from pylota.demo_data.senders import make_senders

pytestmark = pytest.mark.django_db


def run(*arguments: str) -> str:
    output = StringIO()
    call_command("demo_data", *arguments, stdout=output)
    return output.getvalue()


def test_the_same_seed_draws_the_same_and_another_does_not() -> None:
    now = database_now()
    senders = make_senders(Draw(1, now=now))

    def drawn(seed: int) -> list[tuple[datetime, str, str]]:
        planned = plan(senders, Draw(seed, now=now), messages=100, uncertain=20)
        return [(one.at, one.fate, one.sender.address) for one in planned]

    assert drawn(1) == drawn(1) != drawn(2)


def test_outside_the_local_environment_it_is_refused(settings: Settings) -> None:
    settings.LOCAL, settings.PM_ENV = False, "production"

    with pytest.raises(CommandError, match=r"is production.*Nothing was added"):
        run()

    assert not Tenant.objects.exists()


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (("--messages", "20", "--uncertain", "19"), "no room for 19 uncertain sends"),
        (("--messages", "-1"), "not negative"),
    ],
)
def test_what_cannot_be_is_refused_with_a_line(
    given: tuple[str, ...], why: str
) -> None:
    with pytest.raises(CommandError, match=why):
        run(*given)

    assert not Tenant.objects.exists()


def test_whatever_stands_in_a_text_comes_out_of_the_database_unchanged() -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "CREATE TEMP TABLE texts"
            " (pk bigserial, body text, data jsonb, words text[])"
        )
    hostile = "a\\b\tc\nd\re\\N\\.\u2028\x0b{\"'},مكتبة"
    (key,) = take_keys("texts", "pk", 1)

    copy_in(
        "texts", [{"pk": key, "body": hostile, "data": [hostile], "words": (hostile,)}]
    )

    with connection.cursor() as cursor:
        cursor.execute("SELECT body, data::text, words FROM texts")
        ((body, data, words),) = cursor.fetchall()
    assert (body, json.loads(data), words) == (hostile, [hostile], [hostile])
