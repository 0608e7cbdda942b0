"""Where webhooks may go: what no URL and no answer of a resolver gets them to."""

import socket
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pytest_django import Settings

from core import network
from core.clock import database_now
from mailboxes.models import Alert, Identity
from tests.support.certificates import authority
from tests.support.counters import counts
from tests.support.webhook_rows import (
    endpoint_at,
    events_of_one,
    on_its_way,
    rung_and_delivered,
    trusting,
)
from tests.support.webhook_sink import WebhookSink
from webhooks import slots
from webhooks.deliver import try_now
from webhooks.destination import (
    DestinationRefused,
    HostForbidden,
    check_destination,
    parse_destination,
)
from webhooks.models import WebhookAttempt
from webhooks.statuses import AttemptError

REFUSED = [
    # schemes, and what has none
    *("http://hooks.example.com/", "ftp://hooks.example.com/", "hooks.example.com"),
    *("//hooks.example.com/", "file:///etc/passwd", "gopher://hooks.example.com/"),
    *("javascript:alert(1)", "", "https:", "https://", "https:///x", "https:hooks"),
    # user and fragment
    *("https://user@hooks.example.com/", "https://user:pw@hooks.example.com/"),
    *("https://@hooks.example.com/", "https://hooks.example.com/#part"),
    *("https://hooks.example.com/#", "https://good.example.com@10.0.0.1/"),
    # addresses in every notation
    *("https://127.0.0.1/", "https://10.0.0.1/", "https://8.8.8.8/"),
    *("https://2130706433/", "https://0x7f000001/", "https://0177.0.0.1/"),
    *("https://127.1/", "https://0x7f.1/", "https://017700000001/"),
    *("https://[::1]/", "https://[::ffff:127.0.0.1]/", "https://[::]/"),
    *("https://[64:ff9b::7f00:1]/", "https://[fe80::1%25eth0]/", "https://::1/"),
    *("https://169.254.169.254/latest/meta-data/", "https://127.0.0.1./"),
    *("https://0/", "https://1.2.3.0x4/", "https://\uff11\uff12\uff17.0.0.1/"),
    # names of this network, of this machine, and ours
    *("https://localhost/", "https://hooks.localhost/", "https://printer.local/"),
    *("https://db.internal/", "https://x.test/", "https://x.example/"),
    *("https://x.invalid/", "https://x.onion/", "https://router.home.arpa/"),
    *("https://1.0.0.127.in-addr.arpa/", "https://intranet/", "https://LOCALHOST/"),
    *("https://api.pylota.net/", "https://API.pylota.net./", "https://pylota.email/"),
    *("https://hooks.pylota.email/",),
    # ports
    *("https://hooks.example.com:80/", "https://hooks.example.com:22/"),
    *("https://hooks.example.com:1023/", "https://hooks.example.com:65536/"),
    *("https://hooks.example.com:0/", "https://hooks.example.com:/"),
    *("https://hooks.example.com:-1/", "https://hooks.example.com:4 43/"),
    # what parsers read in different ways
    *("https://hooks.example.com\\@10.0.0.1/", "https://hooks.example.com\t/"),
    *("https://hooks.example.com/\r\nHost: x", "https://hooks.example.com/a b"),
    *(" https://hooks.example.com/", "https://hooks.example.com/\n"),
    *("https://hooks.example.com\x00.evil.com/", "https://hooks.ex\u00e4mple.com/"),
    *("https://hooks%2eexample.com/", "https://[hooks.example.com]/"),
    *("https://hooks..example.com/", "https://-hooks.example.com/"),
    "https://hooks.example.com/" + "x" * 2023,
]
ACCEPTED = [
    *("https://hooks.example.com", "https://hooks.example.com/"),
    *("https://HOOKS.example.com:443/path?query=%20&a[]=b;c", "https://a.co:1024/"),
    *("https://hooks.example.com:65535/~me/(x)!$&'*+,;=:@",),
    *("https://xn--bcher-kva.example.net/", "https://example.com.local.net/"),
    "https://hooks.example.com/" + "x" * 2022,
]


@pytest.fixture(autouse=True)
def _in_production(settings: Settings) -> Iterator[None]:
    settings.LOCAL = False
    settings.PM_API_HOST = "api.pylota.net"
    settings.PM_PLATFORM_DOMAIN = "pylota.email"
    yield
    slots.process_slots.cache_clear()


class Resolver:
    """Answers in turn, and the last answer from then on; counts the questions."""

    def __init__(self, *answers: tuple[str, ...]) -> None:
        self.answers = list(answers)
        self.asked: list[str] = []

    def __call__(self, host: str, port: int, **_: object) -> list[Any]:
        self.asked.append(host)
        now = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        return [_entry(address, port) for address in now]


def _entry(address: str, port: int) -> Any:
    if ":" in address:
        return socket.AF_INET6, socket.SOCK_STREAM, 6, "", (address, port, 0, 0)
    return socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)


Answering = Callable[..., Resolver]


@pytest.fixture
def answering(monkeypatch: pytest.MonkeyPatch) -> Answering:
    """Let every name lead where the test says."""

    def answer(*answers: tuple[str, ...]) -> Resolver:
        resolver = Resolver(*answers)
        monkeypatch.setattr(socket, "getaddrinfo", resolver)
        return resolver

    return answer


# --- the URL -------------------------------------------------------------------------


@pytest.mark.parametrize("url", REFUSED)
def test_a_url_that_may_lead_elsewhere_is_refused_without_asking_anybody(
    url: str, answering: Answering
) -> None:
    resolver = answering(("1.1.1.1",))

    with pytest.raises(DestinationRefused) as refused:
        check_destination(url)

    assert resolver.asked == []
    assert len(url) < 12 or url not in str(refused.value)


@pytest.mark.parametrize("url", ACCEPTED)
def test_a_public_https_url_passes(url: str, answering: Answering) -> None:
    answering(("1.1.1.1", "2606:4700::1111"))

    assert check_destination(url).url == url


def test_the_host_and_port_of_a_url_are_what_is_checked(answering: Answering) -> None:
    resolver = answering(("1.1.1.1",))

    found = check_destination("https://HOOKS.example.com:8443/x")

    assert (found.host, found.port) == ("hooks.example.com", 8443)
    assert resolver.asked == ["hooks.example.com"]


@pytest.mark.parametrize(
    "addresses",
    [
        *(("10.0.0.1",), ("1.1.1.1", "127.0.0.1"), ("1.1.1.1", "::1")),
        *(("::ffff:10.0.0.1",), ("64:ff9b::a00:1",), ("64:ff9b:1::a00:1",)),
        *(("2002:a00:1::",), ("169.254.169.254",), ("fe80::1%lo",)),
    ],
)
def test_one_address_that_is_not_public_refuses_the_name(
    addresses: tuple[str, ...], answering: Answering
) -> None:
    answering(addresses)

    with pytest.raises(HostForbidden):
        check_destination("https://hooks.example.com/")


def test_a_name_without_an_address_is_refused(answering: Answering) -> None:
    answering(())

    with pytest.raises(DestinationRefused, match="no address"):
        check_destination("https://hooks.example.com/")


# --- an attempt ----------------------------------------------------------------------


@pytest.fixture
def sink(monkeypatch: pytest.MonkeyPatch) -> Iterator[WebhookSink]:
    context = authority().server_context("hooks.example.com")
    with WebhookSink(context) as running, trusting(monkeypatch):
        yield running


def _try(url: str) -> WebhookAttempt:
    return try_now(endpoint_at(url), now=database_now())


@pytest.mark.django_db
def test_a_name_that_is_public_when_checked_and_private_when_called_is_not_connected_to(
    answering: Answering, sink: WebhookSink
) -> None:
    """R22, and the rebinding of row 21."""
    # Given a resolver that changes its answer after the check
    resolver = answering(("1.1.1.1",), ("127.0.0.1",))
    url = sink.url("/ok", host="hooks.example.com")
    check_destination(url)

    # When an attempt is made
    attempt = _try(url)

    # Then the name was looked up for it, and nobody was connected to
    assert len(resolver.asked) == 2
    assert attempt.error == AttemptError.SSRF_BLOCKED
    assert sink.connections == 0


@pytest.mark.django_db
def test_the_address_that_was_checked_is_the_one_that_is_connected_to(
    answering: Answering, sink: WebhookSink, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a range that the guard lets pass, for this test, and a resolver that gives
    # another answer to whoever asks twice
    monkeypatch.setattr(network, "BLOCKED_V4", ())
    resolver = answering(("127.0.0.1",), ("127.0.0.9",))

    attempt = _try(sink.url("/ok", host="hooks.example.com"))

    # Then one look-up served, and the name stayed what TLS verifies and Host says
    assert (attempt.status, attempt.error) == ("succeeded", None)
    assert len(resolver.asked) == 1
    assert sink.received[0].headers["host"] == f"hooks.example.com:{sink.port}"


@pytest.mark.django_db
def test_a_certificate_of_another_name_does_not_pass_for_the_address_it_has(
    answering: Answering, sink: WebhookSink, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(network, "BLOCKED_V4", ())
    answering(("127.0.0.1",))

    attempt = _try(sink.url("/ok", host="other.example.com"))

    assert attempt.error == AttemptError.TLS
    assert sink.received == []


@pytest.mark.django_db
def test_a_peer_at_another_address_than_the_checked_one_is_told_nothing(
    answering: Answering, sink: WebhookSink, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a network that leads the connection to a public address astray
    answering(("1.1.1.1",))
    plain = socket.socket.connect
    here = ("127.0.0.1", sink.port)
    monkeypatch.setattr(socket.socket, "connect", lambda self, _: plain(self, here))

    attempt = _try(sink.url("/ok", host="hooks.example.com"))

    assert attempt.error == AttemptError.CONNECT
    assert sink.received == []


@pytest.mark.django_db
@pytest.mark.parametrize("name", ["http_proxy", "https_proxy", "all_proxy"])
def test_a_proxy_out_of_the_environment_is_not_asked(
    name: str,
    answering: Answering,
    sink: WebhookSink,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(network, "BLOCKED_V4", ())
    answering(("127.0.0.1",))
    with WebhookSink() as proxy:
        for spelling in (name, name.upper()):
            monkeypatch.setenv(spelling, f"http://127.0.0.1:{proxy.port}")

        assert _try(sink.url("/ok", host="hooks.example.com")).status == "succeeded"
        assert proxy.connections == 0


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("url", "error"),
    [
        ("https://127.0.0.1:9443/", AttemptError.SSRF_BLOCKED),
        ("https://hooks.internal/", AttemptError.SSRF_BLOCKED),
        ("https://api.pylota.net/", AttemptError.SSRF_BLOCKED),
        ("http://hooks.example.com/", AttemptError.INVALID_URL),
        ("https://hooks.example.com:25/", AttemptError.INVALID_URL),
    ],
)
def test_a_stored_url_is_checked_before_each_attempt(
    url: str, error: AttemptError, answering: Answering
) -> None:
    resolver = answering(("1.1.1.1",))

    assert _try(url).error == error
    assert resolver.asked == []


@pytest.mark.django_db
def test_a_blocked_attempt_is_a_failure_like_any_other_and_many_raise_an_alert(
    identity: Identity,
    answering: Answering,
    django_capture_on_commit_callbacks: Any,
) -> None:
    answering(("10.0.0.1",))
    endpoint = endpoint_at("https://hooks.example.com/", tenant=identity.tenant)
    rows = [on_its_way(endpoint, event) for event in events_of_one(identity, 21)]

    with (
        counts("webhook_ssrf_blocked_total", 20),
        django_capture_on_commit_callbacks(execute=True),
    ):
        for row in rows[:20]:
            assert rung_and_delivered(row).state == "pending"
    endpoint.refresh_from_db()
    assert endpoint.failures == 20
    assert not Alert.objects.filter(name="webhook_ssrf_blocked").exists()

    rung_and_delivered(rows[20])
    assert Alert.objects.get(name="webhook_ssrf_blocked").details == {"count": 21}


# --- the local environment -----------------------------------------------------------


@pytest.mark.parametrize(
    "url",
    [
        *("https://localhost:8443/", "https://127.0.0.1:8443/", "https://[::1]:8443/"),
        *("http://localhost:8080/", "http://127.0.0.1/", "https://x.test/"),
    ],
)
def test_the_local_environment_lets_webhooks_stay_on_this_machine(
    url: str, settings: Settings, answering: Answering
) -> None:
    settings.LOCAL = True
    answering(("127.0.0.1",))

    assert check_destination(url).url == url


@pytest.mark.parametrize(
    "url",
    [
        *("http://hooks.example.com/", "ftp://localhost/", "https://u@localhost/"),
        *("https://localhost/#x", "https://localhost:80/", "https://local host/"),
    ],
)
def test_the_local_environment_lets_nothing_else_pass(
    url: str, settings: Settings, answering: Answering
) -> None:
    settings.LOCAL = True
    answering(("1.1.1.1",))

    with pytest.raises(DestinationRefused):
        check_destination(url)


def test_there_are_more_than_forty_forms() -> None:
    assert len({*REFUSED}) == len(REFUSED) > 40
    for url in ACCEPTED:
        parse_destination(url)
