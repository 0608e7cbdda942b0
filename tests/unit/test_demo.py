"""The demo stops at the first step that does not end as it should."""

import io
import re
from pathlib import Path
from typing import Any

import pytest
from django.core.management.base import OutputWrapper

from pylota.catcher.store import CaughtMail
from pylota.demo import Answer, Demo, DemoFailed, Mailbox
from pylota.terminal import Terminal

MESSAGE = "msg_01ARZ3NDEKTSV4RRFFQ69G5FAV"


def answer(status: int, *, replayed: bool = False, **body: Any) -> Answer:
    headers = {"idempotent-replayed": "true"} if replayed else {}
    return Answer(status, headers, body)


def accepted(*, replayed: bool = False) -> Answer:
    return answer(
        202,
        replayed=replayed,
        message={"id": MESSAGE, "status": "queued"},
        deduplicated=replayed,
    )


class Scripted(Mailbox):
    """A mailbox whose API answers from a script."""

    answers: list[Answer]

    def send(self, body: object, *, key: str) -> Answer:
        return self.answers.pop(0)

    def status(self, message_id: str) -> str:
        return "submitted"


def run(tmp_path: Path, *answers: Answer) -> list[str]:
    said: list[str] = []
    mailbox = Scripted("127.0.0.1", 1, "idn_01ARZ3NDEKTSV4RRFFQ69G5FAV", "key")
    object.__setattr__(mailbox, "answers", list(answers))
    demo = Demo(mailbox, mailbox, CaughtMail(tmp_path), "http://x/", said.append)
    demo.run()
    return said


@pytest.mark.parametrize(
    ("answers", "words"),
    [
        ([answer(500, error={"code": "internal_error"})], "expected 202, got 500"),
        ([accepted(), accepted()], "no replay"),
        ([accepted(), accepted(replayed=True), accepted()], "expected 409, got 202"),
        (
            [accepted(), accepted(replayed=True), answer(409, error={"code": "x"})],
            "0 mails arrived for one key",
        ),
    ],
)
def test_a_step_that_goes_wrong_is_named(
    tmp_path: Path, answers: list[Answer], words: str
) -> None:
    with pytest.raises(DemoFailed, match=words):
        run(tmp_path, *answers)


def test_a_number_that_an_earlier_demo_drew_is_drawn_again(tmp_path: Path) -> None:
    with pytest.raises(DemoFailed, match="expected 202, got 503"):
        run(tmp_path, accepted(replayed=True), answer(503))


class Screen(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


LINE = "msg_01…  queued → submitted  0.14 s    1 mail arrived"


def shown_on(stream: io.StringIO) -> str:
    terminal = Terminal(OutputWrapper(stream))
    terminal.begin("migrations")
    terminal.say(LINE)
    return stream.getvalue()


def test_a_terminal_sees_colours_and_what_is_being_waited_for() -> None:
    seen = shown_on(Screen())

    assert "migrations" in seen
    assert "\x1b[32msubmitted\x1b[0m" in seen
    assert re.sub(r"\x1b\[\d*[mK]", "", seen).endswith(f"\r{LINE}\n")


def test_a_pipe_sees_plain_lines_only() -> None:
    assert shown_on(io.StringIO()) == f"{LINE}\n"


def test_no_color_is_respected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")

    assert shown_on(Screen()) == f"{LINE}\n"
