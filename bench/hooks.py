"""How long the hook of SES takes: 100 signed events a second, for 20 seconds.

``python -m bench.hooks`` starts all of Pylota on a free loopback port, as ``manage.py
up`` does, and posts as SNS does from one client. It prints how long the answers took,
and exits with 1 unless all were 200 and 95 of 100 came within 50 ms. Without
``DATABASE_URL`` the database is an embedded one that is thrown away.
"""

import http.client
import os
import sys
import tempfile
import time
from pathlib import Path
from statistics import quantiles
from typing import Final

PER_SECOND: Final = 100
SECONDS: Final = 20
GOAL_MS: Final = 50.0
HEADERS: Final = {
    "Content-Type": "text/plain; charset=UTF-8",
    "x-amz-sns-message-type": "Notification",
}


def main() -> int:
    """Measure; return the exit code."""
    with tempfile.TemporaryDirectory(prefix="pylota-bench-") as folder:
        Path(folder).chmod(0o755)  # the database's user must get to its part
        os.environ["PM_DATA_DIR"] = folder
        os.environ["DJANGO_SETTINGS_MODULE"] = "pylota.settings"
        return report(measured(Path(folder)))


def measured(folder: Path) -> list[float]:
    """Return how many milliseconds each answer took."""
    import django

    django.setup()
    from pylota.deployment import Deployment
    from tests.support import sns

    publisher = sns.Publisher()
    (folder / sns.FILE).write_bytes(sns.certificate_pem(publisher.key))
    event = sns.ses_event("Delivery", **sns.delivery("jo@example.net"))
    count = PER_SECOND * (1 + SECONDS)
    bodies = [sns.body_of(publisher.notification(event)) for _ in range(count)]
    environment = {
        "PM_SES_SNS_TOPIC_ARN": sns.TOPIC,
        "PM_SNS_CERT_DIR": str(folder),
    }
    took: list[float] = []
    with Deployment(port=0, environment=environment) as deployment:
        post_all(deployment.port, bodies[:PER_SECOND])  # what is loaded at first use
        took += post_all(deployment.port, bodies[PER_SECOND:])
    return took


def post_all(port: int, bodies: list[bytes]) -> list[float]:
    """Post each body at its time, on one connection; return the milliseconds."""
    client = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    client.connect()
    began = time.perf_counter()
    took = []
    for n, body in enumerate(bodies):
        time.sleep(max(0.0, began + n / PER_SECOND - time.perf_counter()))
        started = time.perf_counter()
        client.request("POST", "/hooks/ses", body, HEADERS)
        answer = client.getresponse()
        answer.read()
        took.append((time.perf_counter() - started) * 1000)
        if answer.status != 200:
            raise SystemExit(f"POST /hooks/ses answered {answer.status}")
    client.close()
    return took


def report(took: list[float]) -> int:
    """Print the figures; return the exit code."""
    cuts = quantiles(took, n=100)
    p50, p95 = cuts[49], cuts[94]
    sys.stdout.write(
        f"hooks/ses: {len(took)} events, {PER_SECOND} a second, one client:"
        f" p50 {p50:.1f} ms, p95 {p95:.1f} ms (goal: under {GOAL_MS:.0f} ms)\n"
    )
    return 0 if p95 < GOAL_MS else 1


if __name__ == "__main__":
    sys.exit(main())
