"""``manage.py demo``, run for real: each line that it prints is true."""

import contextlib
import http.client
import re
import shlex
import signal
import socket
import sys
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from pylota.catcher.store import caught
from tests.support.processes import ROOT, Processes, Running, until

START_SECONDS = 60.0


class ShownDemo:
    """One run of the demo, up to the line that says how to stop it."""

    def __init__(self, processes: Processes) -> None:
        self.data = processes.folder / "data"
        self.running: Running = processes.run(
            "demo",
            [sys.executable, str(ROOT / "manage.py"), "demo", "--port", "0"],
            {
                "PM_DATA_DIR": self.data,
                "PM_WORKER_THREADS": 2,
                "PM_WEB_THREADS": 4,
            },
        )
        until(
            lambda: (
                "stop    Ctrl-C" in self.running.output or not self.running.is_alive
            ),
            seconds=START_SECONDS,
            what="the end of the demo's steps",
        )
        self.lines = self.running.output.splitlines()
        assert self.running.is_alive, self.running.output

    def line(self, pattern: str) -> re.Match[str]:
        """Return the one line that matches the whole pattern, or fail with all."""
        found = [m for text in self.lines if (m := re.fullmatch(pattern, text))]
        assert len(found) == 1, f"{pattern}\n{self.running.output}"
        return found[0]

    def try_line(self) -> tuple[str, dict[str, str], str]:
        """Return the curl line's URL, headers and body."""
        return curl_parts(self.line(r"try     (curl -X POST .*)")[1])


def curl_parts(command: str) -> tuple[str, dict[str, str], str]:
    """Return URL, headers and body of a curl command as a shell reads it."""
    words = shlex.split(command)
    headers = [words[n + 1] for n, word in enumerate(words) if word == "-H"]
    pairs = dict(header.split(": ", 1) for header in headers)
    url = next(word for word in words if word.startswith("http"))
    return url, pairs, words[words.index("-d") + 1]


def curl_of_the_readme(variables: dict[str, str]) -> tuple[str, dict[str, str], str]:
    """Return path, headers and body of README's request, its variables filled in."""
    readme = (ROOT / "README.md").read_text()
    command = readme[readme.index("curl -i -X POST") : readme.index("HTTP/1.1 202")]
    for name, value in variables.items():
        command = command.replace(f"${name}", value)
    assert "$" not in command
    url, headers, body = curl_parts(command.replace("\\\n", " "))
    return urlsplit(url).path, headers, body


@pytest.fixture(scope="module")
def demo(company: Processes) -> ShownDemo:
    """Show it once; the second test of it ends it."""
    return ShownDemo(company)


def test_one_mail_leaves_although_it_was_asked_for_twice(demo: ShownDemo) -> None:
    # The services, one line each
    demo.line(r"PostgreSQL +ready  \d+\.\d s")
    demo.line(r"migrations +ready  \d+\.\d s .*")
    url = demo.line(r"web, worker, beat +ready  \d+\.\d s +(http://127\.0\.0\.1:\d+)")[
        1
    ]
    demo.line(r"catcher \(SMTP over TLS\) +ready +smtps://127\.0\.0\.1:\d+")

    # The 202, the replay, the conflict
    key = demo.line(
        r"POST /v1/identities/idn_01…/messages +Idempotency-Key: (demo-\d+) +"
        r"202  msg_01…  queued"
    )[1]
    demo.line(
        rf"the same request again +Idempotency-Key: {key} +"
        r"202  msg_01…  replayed, nothing sent"
    )
    demo.line(
        rf"another body under the same key +Idempotency-Key: {key} +"
        r"409  idempotency_conflict"
    )

    # One mail, whose page is there
    arrival = demo.line(
        r"msg_01…  queued → submitted  \d+\.\d\d s +"
        r'1 mail arrived: "(Your booking \d+)"   (http://.*)'
    )
    kept = caught(demo.data)
    assert [mail.subject for mail in kept.newest()] == [arrival[1]]
    assert list(kept.counts().values()) == [1]
    assert arrival[2] == f"{url}/local/inbox"
    assert arrival[1] in httpx.get(arrival[2]).text

    # The test tenant
    demo.line(
        r"test tenant: delivered@simulator\.invalid  "
        r"queued → submitted → delivered  \d+\.\d s"
    )
    demo.line(
        r"test tenant: timeout@simulator\.invalid +queued → uncertain +"
        rf"settle it: {url}/admin/mailboxes/message/msg_\w+/change/"
    )

    # No colour where there is no terminal
    assert "\x1b" not in demo.running.output


def test_what_it_prints_to_go_on_with_works_as_printed(demo: ShownDemo) -> None:
    url, headers, body = demo.try_line()
    assert headers["Authorization"] == demo.line(r"key     (Bearer pmk_live_\S+)")[1]
    number = demo.line(r".*1 mail arrived: \"Your booking (\d+)\".*")[1]
    assert headers["Idempotency-Key"] == f"my-first-{number}"

    first, second = (
        httpx.post(url, headers=headers, content=body, timeout=30) for _ in range(2)
    )

    assert (first.status_code, second.status_code) == (202, 202)
    assert second.headers["Idempotent-Replayed"] == "true"
    until(
        lambda: [m.subject for m in caught(demo.data).newest()].count("Hello") == 1,
        what="the mail of the printed line",
    )

    # README's curl, in a shell that took the line of exports
    where = urlsplit(url)
    given = dict(re.findall(r"(\w+)=(\S+)", demo.line(r"shell   export (.*)")[1]))
    path, headers, body = curl_of_the_readme(given)
    answer = httpx.post(url.replace(where.path, path), headers=headers, content=body)
    assert answer.status_code == 202
    assert "Idempotent-Replayed" not in answer.headers

    admin = demo.line(r"admin   (http://\S+)   admin / (\S+)")
    with httpx.Client(follow_redirects=True, timeout=30) as browser:
        page = browser.get(f"{admin[1]}login/?next=/admin/")
        answer = browser.post(
            page.url,
            data={
                "username": "admin",
                "password": admin[2],
                "csrfmiddlewaretoken": browser.cookies["csrftoken"],
            },
            headers={"Referer": str(page.url)},
        )
        assert answer.url.path == "/admin/"
        assert "Messages" in answer.text
        doubtful = browser.get(demo.line(r"test tenant: .* settle it: (http\S+)")[1])
        assert "the final dot was written, no reply had come" in doubtful.text

    # Ctrl-C ends it, and it says so
    demo.running.signal(signal.SIGINT)
    assert demo.running.process.wait(timeout=12) == 0
    assert demo.running.output.splitlines()[-1] == "stopped"
    with pytest.raises(ConnectionRefusedError):
        http.client.HTTPConnection(str(where.hostname), where.port).connect()


def test_a_port_in_use_makes_way_for_a_free_one_and_it_says_so(
    company: Processes, tmp_path: Path
) -> None:
    with contextlib.closing(socket.socket()) as squatter:
        with contextlib.suppress(OSError):  # somebody else's will do as well
            squatter.bind(("127.0.0.1", 8000))
            squatter.listen()
        running = company.run(
            "demo",
            [sys.executable, str(ROOT / "manage.py"), "demo"],
            {"PM_DATA_DIR": tmp_path / "data", "PM_WORKER_THREADS": 2},
        )
        until(
            lambda: "web, worker, beat" in running.output or not running.is_alive,
            seconds=START_SECONDS,
            what="the web",
        )

    assert "port 8000 is in use: taking a free one" in running.output.splitlines()
    assert "http://127.0.0.1:8000" not in running.output
    running.end(seconds=15)


def test_it_refuses_to_mail_to_a_relay_of_somebody(
    company: Processes, tmp_path: Path
) -> None:
    running = company.run(
        "demo",
        [sys.executable, str(ROOT / "manage.py"), "demo", "--port", "0"],
        {
            "PM_DATA_DIR": tmp_path / "data",
            "PM_PLATFORM_RELAY_URL": "smtps://u:p@relay.example.com",
        },
    )

    assert running.process.wait(timeout=60) == 1
    assert "mails to its own catcher" in running.output
    assert not (tmp_path / "data" / "log").exists()
