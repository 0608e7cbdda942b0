"""Typed readers of the environment: a wrong value stops the start and names itself."""

import base64
import binascii
import json
import os
import re
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

from django.core.exceptions import ImproperlyConfigured

from domains.names import normal_name

T = TypeVar("T")

_UNSET: Any = object()
_REGION = re.compile(r"[a-z]{2,}(-[a-z]+)+-[0-9]{1,2}")
_TOPIC = re.compile(
    r"arn:(?:aws|aws-us-gov):sns:([a-z0-9-]+):[0-9]{12}:[A-Za-z0-9_-]{1,256}", re.ASCII
)
_PATH_WORD = re.compile(r"[A-Za-z0-9_-]{1,128}")
_LABEL = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")


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


def distinct(**secrets: bytes) -> None:
    """Raise ImproperlyConfigured, naming both, if two secrets are equal.

    Whoever learned one of them would have the other. An empty one is no secret.
    """
    first: dict[bytes, str] = {}
    for name, value in secrets.items():
        if value and first.setdefault(value, name) != name:
            raise ImproperlyConfigured(
                f"config_invalid: {name} is the same as {first[value]}. "
                "Make each secret a different one."
            )


def service_url(raw: str, *, schemes: tuple[str, ...]) -> None:
    """Raise ValueError unless the text is a URL of one of the schemes, with a host."""
    known = ", ".join(f"{scheme}://" for scheme in schemes)
    try:
        parts = urlsplit(raw)
        port = parts.port
    except ValueError:
        raise ValueError("is not a URL with a port number") from None
    if parts.scheme not in schemes:
        raise ValueError(f"must begin with one of {known}")
    if port == 0 or not (parts.hostname or parts.scheme == "memory"):
        raise ValueError("names no host and port to connect to")


def together(**values: str) -> None:
    """Raise ImproperlyConfigured, naming one, if some are set and some are not."""
    missing = [name for name, value in values.items() if not value]
    if missing and len(missing) < len(values):
        first = next(name for name, value in values.items() if value)
        raise ImproperlyConfigured(
            f"config_invalid: {missing[0]} is not set, but {first} is. "
            "Set all of them or none; .env.example explains them."
        )


def aws_region(raw: str) -> None:
    """Raise ValueError unless the text has the form of an AWS region's name."""
    if _REGION.fullmatch(raw) is None:
        raise ValueError("must be the name of an AWS region, such as eu-west-1")


def topic_arn(raw: str, *, region: str = "") -> None:
    """Raise ValueError unless the text is the ARN of an SNS topic, in SES's region.

    Hosts of other partitions than AWS's own and GovCloud have another name.
    """
    found = _TOPIC.fullmatch(raw)
    if found is None or _REGION.fullmatch(found[1]) is None:
        raise ValueError(
            "must be the ARN of an SNS topic, such as"
            " arn:aws:sns:eu-west-1:123456789012:pylota-mail"
        )
    if region and found[1] != region:
        raise ValueError("must be a topic in the region that PM_SES_REGION names")


def readable_folder(raw: str) -> None:
    """Raise ValueError unless the text is the path of a folder that can be read."""
    if not (os.path.isdir(raw) and os.access(raw, os.R_OK | os.X_OK)):
        raise ValueError("is not a folder that can be read")


def word(raw: str) -> None:
    """Raise ValueError unless the text is visible ASCII without a blank."""
    if not (raw.isascii() and raw.isprintable()) or " " in raw:
        raise ValueError("must be one word of ASCII characters, without blanks")


def host_name(raw: str, *, with_port: bool) -> None:
    """Raise ValueError unless the text is a host name in lower case, or IPv4."""
    name, colon, port = raw.partition(":")
    if colon and not (with_port and port.isdecimal()):
        raise ValueError("must be a host name alone: no scheme, port or path")
    if len(name) > 253 or not all(_LABEL.fullmatch(part) for part in name.split(".")):
        raise ValueError("must be a host name in lower case, such as api.example.com")


def path_word(raw: str) -> None:
    """Raise ValueError unless the text is an id that can stand in a URL's path."""
    if not _PATH_WORD.fullmatch(raw):
        raise ValueError("must be an id: letters, digits, - and _ only")


def domain_name(raw: str) -> None:
    """Raise ValueError unless the text is a domain name as it is stored."""
    if (name := normal_name(raw)) != raw:
        raise ValueError(f"must be written {name}")


def pem_file(raw: str) -> None:
    """Raise ValueError unless the text is the path of certificates in PEM."""
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(raw)
    except ssl.SSLError:
        raise ValueError("is not a usable file: no certificates in PEM") from None
    except OSError as error:
        raise ValueError(f"is not a usable file: {error.strerror}") from None


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
