"""A proxy that spoils one HTTP request after the other, each as it is told."""

from collections.abc import Iterable
from enum import StrEnum
from typing import Final

from tests.support.tcp_proxy import Link, TcpProxy

_STARTS: Final = (b"POST ", b"GET ")
UNAVAILABLE: Final = (
    b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: text/html\r\n"
    b"Content-Length: 5\r\nConnection: close\r\n\r\nSorry"
)


class Spoil(StrEnum):
    """What becomes of one request; after ``ANSWER_…`` the server has done its work."""

    NOTHING = "nothing"
    CLOSE_BEFORE = "closed before it was passed on"
    RESET_BEFORE = "reset before it was passed on"
    GATEWAY_BEFORE = "a 503 instead of passing it on"
    ANSWER_CUT = "its answer not passed on"
    ANSWER_HALVED = "half of its answer passed on"
    ANSWER_RESET = "reset instead of its answer"
    ANSWER_GATEWAY = "a 503 instead of its answer"

    @property
    def is_after(self) -> bool:
        """Tell whether the server had answered by then."""
        return self.name.startswith("ANSWER_")


class LossyLink(Link):
    """One connection; each request that starts on it takes the next fault."""

    proxy: "LossyProxy"
    spoil = Spoil.NOTHING

    def upward(self, octets: bytes) -> None:
        """Pass a request on, unless it is to get lost on its way."""
        if octets.startswith(_STARTS):
            self.spoil = self.proxy.next_spoil()
        match self.spoil:
            case Spoil.CLOSE_BEFORE:
                self.close()
            case Spoil.RESET_BEFORE:
                self.close(reset=True)
            case Spoil.GATEWAY_BEFORE:
                self._refuse()
            case _:
                self.send_up(octets)

    def downward(self, octets: bytes) -> None:
        """Pass an answer on, unless it is to get lost on its way."""
        match self.spoil:
            case Spoil.ANSWER_CUT:
                self.close()
            case Spoil.ANSWER_HALVED:
                self.send_down(octets[: len(octets) // 2])
                self.close()
            case Spoil.ANSWER_RESET:
                self.close(reset=True)
            case Spoil.ANSWER_GATEWAY:
                self._refuse()
            case _:
                self.send_down(octets)

    def _refuse(self) -> None:
        self.send_down(UNAVAILABLE)
        self.close()


class LossyProxy(TcpProxy):
    """Passes requests on whole, but for those that ``spoil`` was called for."""

    link_type = LossyLink

    def __init__(self, target: tuple[str, int]) -> None:
        super().__init__(target)
        self._planned: list[Spoil] = []
        self.requests = 0

    @property
    def url(self) -> str:
        """Return where clients find it."""
        return f"http://127.0.0.1:{self.port}"

    def spoil(self, faults: Iterable[Spoil]) -> None:
        """Spoil the next requests in this order; those after them pass."""
        assert self._planned == [], "faults of before were not met"
        self._planned = list(faults)

    def heal(self) -> None:
        """Let everything pass from now on."""
        self._planned = []

    def next_spoil(self) -> Spoil:
        """Return what becomes of the request that starts now."""
        self.requests += 1
        return self._planned.pop(0) if self._planned else Spoil.NOTHING
