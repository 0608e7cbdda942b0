"""The readers of the environment take what is right, and name what is wrong."""

import base64
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured

from pylota import env

KEY = base64.b64encode(bytes(range(32))).decode()
Reader = Callable[[str], Any]

READERS: dict[str, Reader] = {
    "integer": lambda name: env.integer(name, 5, least=1, most=9),
    "seconds": lambda name: env.seconds(name, 1.5, least=0.1),
    "boolean": lambda name: env.boolean(name, False),
    "choice": lambda name: env.choice(name, "a", ("a", "b")),
    "json": env.json_object,
    "secret": lambda name: env.secret(name, b""),
    "folder": lambda name: env.folder(name, Path("x")),
    "postgres": lambda name: env.checked(name, "", check=env.postgres_url),
}


@pytest.mark.parametrize(
    ("reader", "raw", "value"),
    [
        ("integer", "", 5),
        ("integer", "9", 9),
        ("seconds", "", 1.5),
        ("seconds", "0.25", 0.25),
        ("boolean", "", False),
        ("boolean", "On", True),
        ("boolean", "0", False),
        ("choice", "b", "b"),
        ("json", "", {}),
        ("json", '{"max_recipients": 5}', {"max_recipients": 5}),
        ("secret", KEY, bytes(range(32))),
        ("folder", "/srv/x", Path("/srv/x")),
        ("postgres", "postgresql://h/d", "postgresql://h/d"),
    ],
)
def test_a_right_value_is_read(
    monkeypatch: pytest.MonkeyPatch, reader: str, raw: str, value: object
) -> None:
    monkeypatch.setenv("PM_X", raw)

    assert READERS[reader]("PM_X") == value


@pytest.mark.parametrize(
    ("reader", "raw", "words"),
    [
        ("integer", "many", "must be a whole number"),
        ("integer", "1.5", "must be a whole number"),
        ("integer", "10", "must be from 1 to 9"),
        ("integer", "-1", "must be from 1 to 9"),
        ("seconds", "soon", "must be a number of seconds"),
        ("seconds", "0", "must be at least 0.1"),
        ("seconds", "nan", "must be at least 0.1"),
        ("boolean", "maybe", "must be on or off"),
        ("choice", "c", "must be one of a, b"),
        ("json", "{", "is not JSON"),
        ("json", "[]", "must be a JSON object"),
        ("secret", "***", "is not base64"),
        ("secret", "aHVzaA==", "must be 32 bytes in base64, not 4"),
        ("postgres", "mysql://u:hush@h/d", "must begin with postgres://"),
    ],
)
def test_a_wrong_value_names_its_variable_and_hides_itself(
    monkeypatch: pytest.MonkeyPatch, reader: str, raw: str, words: str
) -> None:
    monkeypatch.setenv("PM_X", raw)

    with pytest.raises(ImproperlyConfigured) as refusal:
        READERS[reader]("PM_X")

    assert str(refusal.value).startswith(f"config_invalid: PM_X {words}")
    assert "hush" not in str(refusal.value)
    assert re.search(r"aHVzaA|\*\*\*", str(refusal.value)) is None


def test_a_required_variable_that_is_missing_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("PM_X", raising=False)

    with pytest.raises(ImproperlyConfigured, match="config_invalid: PM_X is not set"):
        env.text("PM_X")
