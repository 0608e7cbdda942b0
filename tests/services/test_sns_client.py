"""Certificates and confirmations: one request, bounded, and never anywhere else."""

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import Encoding

from delivery import sns_client
from delivery.sns import Reason, Refused
from delivery.sns_client import SnsAway, certificate_at, confirm
from tests.support.racers import Racers
from tests.support.sns import (
    CERTIFICATE_URL,
    FILE,
    HOST,
    SnsHost,
    answering,
    certificate_pem,
    drip,
    rsa_key,
    sns_host,
)
from tests.support.waiting import until

PEM = certificate_pem(rsa_key())
SUBSCRIBE_URL = f"https://{HOST}/?Action=ConfirmSubscription&Token=abc"


@pytest.fixture(scope="module")
def host_of_the_module() -> Iterator[SnsHost]:
    with sns_host(PEM) as host:
        yield host


@pytest.fixture
def host(host_of_the_module: SnsHost) -> SnsHost:
    """SNS as nobody has asked it yet."""
    sns_client.forget_certificates()
    host_of_the_module.forget()
    return host_of_the_module


def pem_at(url: str, *, folder: str = "") -> bytes:
    return certificate_at(url, folder=folder).public_bytes(Encoding.PEM)


def test_a_certificate_is_fetched_once_and_kept_for_a_day(
    host: SnsHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [1000.0]
    monkeypatch.setattr(sns_client, "elapsed_clock", lambda: clock[0])

    for seconds in (0, 1, 86_398):
        clock[0] += seconds
        assert pem_at(CERTIFICATE_URL) == PEM
    assert host.connections == 1

    clock[0] += 2
    assert pem_at(CERTIFICATE_URL) == PEM
    assert host.paths == [f"/{FILE}", f"/{FILE}"]
    assert set(host.looked_up) == {f"{HOST}:443"}


def test_only_so_many_certificates_are_kept(host: SnsHost) -> None:
    urls = [f"https://{HOST}/{n}.pem" for n in range(20)]
    for url in urls:
        certificate_at(url)
    assert host.connections == 20

    for url in urls[4:]:
        certificate_at(url)
    assert host.connections == 20
    certificate_at(urls[0])
    assert host.connections == 21


def test_threads_that_need_one_certificate_fetch_it_once(host: SnsHost) -> None:
    racers = Racers(4)
    try:
        for n in range(20):
            url = f"https://{HOST}/race-{n}.pem"
            found = racers.at_once([lambda url=url: pem_at(url)] * 4)  # type: ignore[misc]
            assert found == [PEM] * 4
    finally:
        racers.close()
    assert host.connections == 20


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        *((status, Refused) for status in (204, 301, 302, 307, 308, 400, 403, 404)),
        *((status, SnsAway) for status in (429, 500, 503)),
    ],
)
def test_whatever_is_no_certificate_is_none_and_no_redirect_is_followed(
    host: SnsHost, status: int, expected: type[Exception]
) -> None:
    elsewhere = f"https://evil.example/{FILE}"
    host.acts.append(answering(status, PEM, Location=elsewhere))

    with pytest.raises(expected):
        certificate_at(CERTIFICATE_URL)

    assert (host.connections, host.looked_up) == (1, [f"{HOST}:443"])
    assert pem_at(CERTIFICATE_URL) == PEM  # and nothing was remembered


def test_a_page_in_place_of_a_certificate_is_refused(host: SnsHost) -> None:
    host.acts.append(answering(200, b"<html></html>"))

    with pytest.raises(Refused) as refused:
        certificate_at(CERTIFICATE_URL)
    assert refused.value.reason == Reason.CERTIFICATE


def test_an_answer_without_end_is_given_up(host: SnsHost) -> None:
    host.acts.append(answering(200, PEM + b"x" * 70_000))

    with pytest.raises(SnsAway):
        certificate_at(CERTIFICATE_URL)


@pytest.mark.parametrize("call", [certificate_at, confirm])
def test_a_host_that_drips_is_left_at_the_deadline(
    host: SnsHost, monkeypatch: pytest.MonkeyPatch, call: Callable[[str], object]
) -> None:
    monkeypatch.setattr(sns_client, "SECONDS", 0.3)
    host.acts.append(drip)

    with pytest.raises(SnsAway):
        call(CERTIFICATE_URL)


def test_few_wait_for_a_certificate_and_the_others_are_told(host: SnsHost) -> None:
    # Given a host that hangs, and as many requests as may wait for it
    asked, goes_on = threading.Event(), threading.Event()

    def hang(call: object) -> None:
        asked.set()
        goes_on.wait(20)

    host.acts.append(hang)
    ended: list[object] = []

    def ask(n: int) -> None:
        try:
            ended.append(certificate_at(f"https://{HOST}/hang-{n}.pem"))
        except SnsAway as error:
            ended.append(error)

    threads = [threading.Thread(target=ask, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    assert asked.wait(10)
    until(lambda: not sns_client._places._value)  # every place is taken

    # When one more comes, then it is told at once, and a known one is still found
    with pytest.raises(SnsAway, match="too many"):
        certificate_at(CERTIFICATE_URL)
    assert host.connections == 1
    goes_on.set()
    for thread in threads:
        thread.join()
    assert len(ended) == 4
    assert pem_at(CERTIFICATE_URL) == PEM


def test_a_folder_is_asked_first_and_nobody_is_called(
    host: SnsHost, tmp_path: Path
) -> None:
    (tmp_path / FILE).write_bytes(PEM)

    for url in (CERTIFICATE_URL, f"https://{HOST}/deeper/{FILE}"):
        assert pem_at(url, folder=str(tmp_path)) == PEM
    assert host.looked_up == []

    # and a file that is changed counts at once
    other = certificate_pem(rsa_key(name="other"))
    (tmp_path / FILE).write_bytes(other)
    assert pem_at(CERTIFICATE_URL, folder=str(tmp_path)) == other


def test_what_the_folder_does_not_hold_is_fetched(
    host: SnsHost, tmp_path: Path
) -> None:
    assert pem_at(CERTIFICATE_URL, folder=str(tmp_path)) == PEM
    assert host.connections == 1


def test_a_file_that_is_no_certificate_is_refused(
    host: SnsHost, tmp_path: Path
) -> None:
    (tmp_path / FILE).write_bytes(b"not one")

    with pytest.raises(Refused):
        certificate_at(CERTIFICATE_URL, folder=str(tmp_path))
    assert host.looked_up == []


def test_a_confirmation_is_one_request_and_says_its_token(host: SnsHost) -> None:
    confirm(SUBSCRIBE_URL)

    assert host.paths == ["/?Action=ConfirmSubscription&Token=abc"]


@pytest.mark.parametrize("status", [301, 307, 400, 403, 500])
def test_a_confirmation_that_is_not_done_is_told(host: SnsHost, status: int) -> None:
    host.acts.append(answering(status, Location="https://evil.example/"))

    with pytest.raises(SnsAway):
        confirm(SUBSCRIBE_URL)
    assert (host.connections, host.looked_up) == (1, [f"{HOST}:443"])
