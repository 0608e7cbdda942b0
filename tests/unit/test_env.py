"""The readers of the environment take what is right, and name what is wrong."""

import base64
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import certifi
import pytest
from django.core.exceptions import ImproperlyConfigured

from pylota import env

KEY = base64.b64encode(bytes(range(32))).decode()
Reader = Callable[[str], Any]

ARN = "arn:aws:sns:"
GOV = "arn:aws-us-gov:sns:us-gov-west-1:123456789012:x"
NO_TOPICS = [
    "pylota-mail",
    f"{ARN}eu-west-1:12345:x",
    f"{ARN}eu-west-1:123456789012:",
    f"{ARN}eu-west-1:123456789012:x y",
    f"{ARN}eu-west-1:123456789012:x.fifo",
    f"{ARN}europe:123456789012:x",
    "arn:aws:sqs:eu-west-1:123456789012:x",
    "arn:aws-cn:sns:cn-north-1:123456789012:x",
    f"{ARN}eu-west-1:123456789012:x\n",
]
READERS: dict[str, Reader] = {
    "integer": lambda name: env.integer(name, 5, least=1, most=9),
    "seconds": lambda name: env.seconds(name, 1.5, least=0.1),
    "boolean": lambda name: env.boolean(name, False),
    "choice": lambda name: env.choice(name, "a", ("a", "b")),
    "json": env.json_object,
    "secret": lambda name: env.secret(name, b""),
    "folder": lambda name: env.folder(name, Path("x")),
    "postgres": lambda name: env.checked(name, "", check=env.postgres_url),
    "service": lambda name: env.checked(
        name, "", check=partial(env.service_url, schemes=("redis", "memory"))
    ),
    "host": lambda name: env.checked(
        name, "", check=partial(env.host_name, with_port=False)
    ),
    "local host": lambda name: env.checked(
        name, "", check=partial(env.host_name, with_port=True)
    ),
    "domain": lambda name: env.checked(name, "", check=env.domain_name),
    "pem": lambda name: env.checked(name, "", check=env.pem_file),
    "path word": lambda name: env.checked(name, "", check=env.path_word),
    "word": lambda name: env.checked(name, "", check=env.word),
    "topic": lambda name: env.checked(
        name, "", check=partial(env.topic_arn, region="eu-west-1")
    ),
    "any topic": lambda name: env.checked(name, "", check=env.topic_arn),
    "readable": lambda name: env.checked(name, "", check=env.readable_folder),
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
        ("service", "redis://:p@h:6379/0", "redis://:p@h:6379/0"),
        ("service", "memory://", "memory://"),
        ("host", "api.example.com", "api.example.com"),
        ("host", "127.0.0.1", "127.0.0.1"),
        ("local host", "localhost:9000", "localhost:9000"),
        ("domain", "agents.example.com", "agents.example.com"),
        ("pem", certifi.where(), certifi.where()),
        ("path word", "0123-abc_D", "0123-abc_D"),
        ("word", "v1.0-a/b=", "v1.0-a/b="),
        ("topic", f"{ARN}eu-west-1:123456789012:x", f"{ARN}eu-west-1:123456789012:x"),
        ("any topic", GOV, GOV),
        ("readable", str(Path(__file__).parent), str(Path(__file__).parent)),
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
        ("service", "http://:hush@h", "must begin with one of redis://, memory://"),
        ("service", "redis://", "names no host"),
        ("service", "redis://:hush@h:x/0", "is not a URL with a port number"),
        ("host", "https://api.example.com", "must be a host name alone"),
        ("host", "api.example.com:443", "must be a host name alone"),
        ("local host", "localhost:http", "must be a host name alone"),
        ("host", "API.example.com", "must be a host name in lower case"),
        ("host", "api_1.example.com", "must be a host name in lower case"),
        ("domain", "agents", "'agents' is not a domain name"),
        ("domain", "Agents.example.com", "must be written agents.example.com"),
        ("path word", "../hush", "must be an id"),
        ("path word", "hush?a=b", "must be an id"),
        ("word", "hush hush", "must be one word of ASCII characters"),
        ("word", "hush\r\nX-A: b", "must be one word of ASCII characters"),
        ("word", "hüsh", "must be one word of ASCII characters"),
        *(("topic", raw, "must be the ARN of an SNS topic") for raw in NO_TOPICS),
        ("topic", f"{ARN}us-east-1:123456789012:x", "must be a topic in the region"),
        ("readable", "/nowhere", "is not a folder that can be read"),
        ("readable", __file__, "is not a folder that can be read"),
        ("pem", "/nowhere/ca.pem", "is not a usable file: No such file"),
        ("pem", __file__, "is not a usable file: no certificates in PEM"),
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


def test_two_equal_secrets_are_named_and_empty_ones_are_none() -> None:
    env.distinct(A=b"1", B=b"2", C=b"", D=b"")

    with pytest.raises(ImproperlyConfigured, match="config_invalid: C is the same as "):
        env.distinct(A=b"1", B=b"2", C=b"2")


def test_a_required_variable_that_is_missing_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("PM_X", raising=False)

    with pytest.raises(ImproperlyConfigured, match="config_invalid: PM_X is not set"):
        env.text("PM_X")
