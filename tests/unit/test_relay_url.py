"""A relay's URL is read exactly, or refused with words that hold no secret."""

import pytest

from domains.names import normal_name
from domains.relay import RelaySettings, parse_relay_url


def test_smtps_is_tls_from_the_first_octet_and_the_login_is_decoded() -> None:
    relay = parse_relay_url("smtps://user%40acme:p%3A%2F%25@smtp.relay.example.com")

    assert relay == RelaySettings(
        host="smtp.relay.example.com",
        port=465,
        username="user@acme",
        password="p:/%",
        implicit_tls=True,
    )


def test_smtp_demands_starttls_on_587() -> None:
    relay = parse_relay_url("smtp://u:p@smtp.relay.com", probe_from="postmaster@a.com")

    assert (relay.port, relay.implicit_tls) == (587, False)
    assert relay.probe_from == "postmaster@a.com"


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("https://u:hush@smtp.relay.com", "smtps://"),
        ("smtps://smtp.relay.com", "a user and a password"),
        ("smtps://u@smtp.relay.com", "a user and a password"),
        ("smtps://u:hush@", "no host"),
        ("smtps://u:hush@smtp.relay.com:none", "port number"),
        ("smtps://u:hush@smtp.relay.com:99999", "port number"),
        ("smtps://u:hush/x@smtp.relay.com", "port number"),
        ("smtps://u:hush@smtp.relay.com/box", "%2F"),
        ("smtps://u:hush@smtp.relay.com:25", "465 or 587"),
        ("smtps://u:hush@127.0.0.1:465", "DNS name"),
        ("smtps://u:hush@[::1]:465", "DNS name"),
        ("smtps://u:hush@2130706433:465", "DNS name"),
        ("smtps://u:hush@localhost", "DNS name"),
        ("smtps://u:hush@mail.internal", "public host"),
    ],
)
def test_a_url_that_cannot_be_used_says_why_without_the_password(
    url: str, words: str
) -> None:
    with pytest.raises(ValueError, match=words) as refusal:
        parse_relay_url(url)

    assert "hush" not in str(refusal.value)


def test_the_local_environment_may_use_any_port_and_loopback() -> None:
    relay = parse_relay_url("smtps://u:p@127.0.0.1:4650", is_local=True)

    assert (relay.host, relay.port) == ("127.0.0.1", 4650)


def test_the_sealed_form_comes_back_as_it_was_and_repr_hides_the_password() -> None:
    relay = parse_relay_url("smtps://u:hush@smtp.relay.com", probe_from="p@a.com")

    assert RelaySettings.from_json(relay.to_json()) == relay
    assert "hush" not in repr(relay)


def test_a_domain_name_has_one_form() -> None:
    assert normal_name(" Bücher.Example. ") == "xn--bcher-kva.example"


@pytest.mark.parametrize("name", ["", "one", "a b.example", "-a.example", "1.2.3.4"])
def test_what_is_no_domain_name_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="not a domain name"):
        normal_name(name)
