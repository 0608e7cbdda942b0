"""Typed readers of the environment: a wrong value stops the start and names itself."""

import base64
import binascii
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

from django.core.exceptions import ImproperlyConfigured

T = TypeVar("T")

_UNSET: Any = object()


def _read(name: str, default: T, parse: Callable[[str], T]) -> T:
    raw = os.environ.get(name, "")
    if raw == "":
        if default is _UNSET:
            raise ImproperlyConfigured(
                f"config_invalid: {name} is not set. Set it; .env.example explains it."
            )
        return default
    try:
        return parse(raw)
    except ValueError as error:
        # the value may be a secret: only what is wrong with it is said
        raise ImproperlyConfigured(f"config_invalid: {name} {error}.") from None


def text(name: str, default: str = _UNSET) -> str:
    """Return a text value."""
    return _read(name, default, str)


def choice(name: str, default: str, allowed: tuple[str, ...]) -> str:
    """Return one of the allowed words."""

    def parse(raw: str) -> str:
        if raw not in allowed:
            raise ValueError(f"must be one of {', '.join(allowed)}")
        return raw

    return _read(name, default, parse)


def integer(name: str, default: int, *, least: int = 0, most: int = 10**9) -> int:
    """Return a whole number within its bounds."""

    def parse(raw: str) -> int:
        if not raw.lstrip("-").isdecimal():
            raise ValueError("must be a whole number")
        value = int(raw)
        if not least <= value <= most:
            raise ValueError(f"must be from {least} to {most}")
        return value

    return _read(name, default, parse)


def seconds(name: str, default: float, *, least: float = 0.0) -> float:
    """Return a duration in seconds; fractions are allowed."""

    def parse(raw: str) -> float:
        try:
            value = float(raw)
        except ValueError:
            raise ValueError("must be a number of seconds") from None
        if not least <= value < 10**9:
            raise ValueError(f"must be at least {least} seconds")
        return value

    return _read(name, default, parse)


def boolean(name: str, default: bool) -> bool:
    """Return on or off."""
    words = {"on": True, "true": True, "1": True, "off": False, "false": False}
    words["0"] = False

    def parse(raw: str) -> bool:
        if raw.lower() not in words:
            raise ValueError("must be on or off")
        return words[raw.lower()]

    return _read(name, default, parse)


def folder(name: str, default: Path) -> Path:
    """Return an absolute path."""
    return _read(name, default, Path).absolute()


def json_object(
    name: str, *, check: Callable[[dict[str, Any]], None] = lambda value: None
) -> dict[str, Any]:
    """Return a JSON object; an empty one when unset.

    ``check`` raises ValueError for an object that is none of the wanted ones.
    """

    def parse(raw: str) -> dict[str, Any]:
        try:
            value = json.loads(raw)
        except json.JSONDecodeError as error:
            raise ValueError(f"is not JSON (column {error.colno})") from None
        if not isinstance(value, dict):
            raise ValueError("must be a JSON object")
        check(value)
        return value

    return _read(name, {}, parse)


def secret(name: str, default: bytes = _UNSET) -> bytes:
    """Return 32 secret bytes, given in base64."""

    def parse(raw: str) -> bytes:
        try:
            value = base64.b64decode(raw, validate=True)
        except binascii.Error:
            raise ValueError("is not base64") from None
        if len(value) != 32:
            raise ValueError(f"must be 32 bytes in base64, not {len(value)}")
        return value

    return _read(name, default, parse)


def postgres_url(raw: str) -> None:
    """Raise ValueError unless the text is a PostgreSQL URL."""
    if urlsplit(raw).scheme not in ("postgres", "postgresql"):
        raise ValueError("must begin with postgres://")


def checked(name: str, default: str = _UNSET, *, check: Callable[[str], object]) -> str:
    """Return a text value that ``check`` takes; what its ValueError says is shown.

    The text of the error must not hold the value, which may be a secret.
    """

    def parse(raw: str) -> str:
        check(raw)
        return raw

    return _read(name, default, parse)
