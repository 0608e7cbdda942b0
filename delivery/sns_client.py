"""The two requests that SNS may make us send: for a certificate, and to confirm.

Their URLs have passed ``delivery.sns`` before. Each is one request under one deadline,
follows no redirect, and is verified TLS to the host that the URL names.
"""

import threading
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from cryptography import x509

from core.deadline import Deadline
from core.elapsed import elapsed_clock
from core.http_answer import Answer
from delivery.sns import Reason, Refused, certificate_in

SECONDS: Final = 5.0
"""The time of a request, the wait for another one included."""
LONGEST: Final = 65_536
"""Octets of a certificate, or of the answer to a confirmation."""
KEPT_SECONDS: Final = 86_400.0
MOST_KEPT: Final = 16
MOST_AT_ONCE: Final = 4
"""Requests that may wait for a certificate: each holds a thread of the web."""


class SnsAway(Exception):
    """SNS gave no answer to decide by; the same message may succeed later."""


_kept: OrderedDict[str, tuple[float, x509.Certificate]] = OrderedDict()
_places = threading.BoundedSemaphore(MOST_AT_ONCE)
_fetching = threading.Lock()


def certificate_at(url: str, *, folder: str = "") -> x509.Certificate:
    """Return the certificate of a URL: from the folder, from memory, or fetched.

    What was fetched is kept for 24 hours. A file of the folder bears the last part of
    the URL's path as its name. Raises Refused if there is no certificate at the URL,
    and SnsAway if nobody could say.
    """
    if folder and (pem := _file(Path(folder) / url.rpartition("/")[2])) is not None:
        return certificate_in(pem)
    if (known := _known(url)) is not None:
        return known
    deadline = Deadline(SECONDS)
    with _turn(deadline):
        if (known := _known(url)) is not None:  # whoever was before us has fetched it
            return known
        certificate = certificate_in(_fetched(url, deadline))
        _keep(url, certificate)
        return certificate


def confirm(url: str) -> None:
    """Confirm a subscription; raises SnsAway unless SNS says that it is done.

    Doing it twice does no harm.
    """
    answer = _get(url, Deadline(SECONDS))
    if answer.status != 200:
        raise SnsAway(f"confirmation answered {answer.status}")


def forget_certificates() -> None:
    """Empty this process's memory."""
    _kept.clear()


def _file(path: Path) -> bytes | None:
    try:
        with path.open("rb") as file:
            return file.read(LONGEST)
    except FileNotFoundError:
        return None


def _known(url: str) -> x509.Certificate | None:
    found = _kept.get(url)
    is_fresh = found is not None and elapsed_clock() - found[0] < KEPT_SECONDS
    return found[1] if found is not None and is_fresh else None


def _keep(url: str, certificate: x509.Certificate) -> None:
    _kept.pop(url, None)
    _kept[url] = (elapsed_clock(), certificate)
    while len(_kept) > MOST_KEPT:
        _kept.popitem(last=False)


@contextmanager
def _turn(deadline: Deadline) -> Iterator[None]:
    """Let one request at a time fetch, and few wait: a forger must not stop the web."""
    if not _places.acquire(blocking=False):
        raise SnsAway("too many wait for a certificate")
    try:
        if not _fetching.acquire(timeout=deadline.left()):
            raise SnsAway("another certificate took too long")
        try:
            yield
        finally:
            _fetching.release()
    finally:
        _places.release()


def _fetched(url: str, deadline: Deadline) -> bytes:
    answer = _get(url, deadline)
    if answer.status == 200:
        return answer.body
    if answer.status == 429 or answer.status >= 500:
        raise SnsAway(f"certificate answered {answer.status}")
    raise Refused(Reason.CERTIFICATE)  # there is none, or it lies elsewhere


def _get(url: str, deadline: Deadline) -> Answer:
    from core.http_once import NoAnswer, ask  # and httpx, which takes its time to load

    plain = {"Accept-Encoding": "identity"}
    try:
        return ask("GET", url, headers=plain, deadline=deadline, longest=LONGEST)
    except NoAnswer as error:
        raise SnsAway(str(error)) from error
