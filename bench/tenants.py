"""What one tenant's many senders cost each other: they share a row, and wait for it.

``python -m bench.tenants`` starts the web server as ``manage.py up`` does, without
workers, and lets 16 clients send at once: in one round from 16 mailboxes of one tenant,
in the next from 16 mailboxes of 16 tenants, and so on in turn. It prints what was
accepted in a second, writes all figures to ``bench/results/tenants.json``, and exits
with 1 if one tenant gets less than half of what 16 get. Without ``DATABASE_URL`` the
database is an embedded one that is thrown away; with it, give an empty one.
"""

import http.client
import json
import os
import platform
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from statistics import median, quantiles
from typing import Any, Final

CLIENTS: Final = 16
ROUNDS: Final = 6
SECONDS: Final = 5.0
WARM_UP_SECONDS: Final = 2.0
GOAL: Final = 0.5
RESULTS: Final = Path(__file__).parent / "results" / "tenants.json"
UNLIMITED: Final = {
    "PM_RATE_PER_KEY": "0",
    "PM_RATE_PER_TENANT": "0",
    "PM_RATE_SENDS": "0",
    "PM_DEFAULT_POLICY": json.dumps(
        {"identity_daily_send_cap": 10**6, "tenant_daily_send_cap": 10**6}
    ),
}
BODY: Final = json.dumps(
    {
        "to": ["delivered@simulator.invalid"],
        "subject": "Your booking",
        "text": "See you on Friday.",
    }
).encode()


@dataclass(frozen=True, slots=True)
class Sender:
    """A mailbox, and a key that sends from it."""

    identity_id: str
    api_key: str


@dataclass(frozen=True, slots=True)
class Round:
    """What one side got done: sends accepted in a second, and how long they took."""

    tenants: int
    per_second: float
    p50_ms: float
    p95_ms: float


def main() -> int:
    """Measure; return the exit code."""
    with tempfile.TemporaryDirectory(prefix="pylota-bench-") as folder:
        Path(folder).chmod(0o755)  # the database's user must get to its part
        os.environ["PM_DATA_DIR"] = folder
        os.environ["DJANGO_SETTINGS_MODULE"] = "pylota.settings"
        os.environ.setdefault("PM_WEB_WORKERS", str(os.cpu_count() or 1))
        return report(measured())


def measured() -> list[Round]:
    """Return the rounds, in the order in which they ran."""
    import django

    django.setup()
    from pylota.deployment import Deployment

    class Web(Deployment):
        """A deployment that accepts and sends nothing: a worker would take its time."""

        def _workers(self) -> list[Any]:
            return []

    rounds: list[Round] = []
    with Web(port=0, environment=UNLIMITED) as deployment:
        run = f"{time.time():.0f}"  # the database may know an earlier one
        one = [provisioned(f"one-{run}", n) for n in range(CLIENTS)]
        many = [provisioned(f"many-{run}-{n}", n) for n in range(CLIENTS)]
        sides = ((1, one), (CLIENTS, many))
        for tenants, senders in sides:
            round_of(deployment.port, tenants, senders, seconds=WARM_UP_SECONDS)
        rounds += [
            round_of(deployment.port, tenants, senders, seconds=SECONDS)
            for n in range(ROUNDS)
            for tenants, senders in (sides if n % 2 else reversed(sides))
        ]
    return rounds


def provisioned(tenant: str, n: int) -> Sender:
    """Make a mailbox of a test tenant."""
    from mailboxes.statuses import TenantMode
    from pylota.provisioning import provision

    made = provision(
        tenant=tenant, mode=TenantMode.TEST, username=f"bench{n}", own_domain=None
    )
    return Sender(made.identity_id, made.api_key)


def round_of(
    port: int, tenants: int, senders: Sequence[Sender], *, seconds: float
) -> Round:
    """Let each sender send as fast as it is answered, all at once, for so long."""
    barrier = threading.Barrier(len(senders))
    ends = time.perf_counter() + seconds
    with ThreadPoolExecutor(len(senders)) as clients:
        done = [
            clients.submit(send_all, port, sender, barrier, ends) for sender in senders
        ]
    every = [each for one in done for each in one.result()]
    cuts = quantiles(every, n=100)
    return Round(tenants, len(every) / seconds, cuts[49] * 1000, cuts[94] * 1000)


def send_all(
    port: int, sender: Sender, barrier: threading.Barrier, ends: float
) -> list[float]:
    """Send on one connection until the time is up; return the seconds of each 202."""
    took = []
    client = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    client.connect()
    path = f"/v1/identities/{sender.identity_id}/messages"
    barrier.wait(timeout=30)
    while (started := time.perf_counter()) < ends:
        key = f"{threading.get_ident()}-{started}"
        client.request("POST", path, BODY, headers_of(sender, key))
        answer = client.getresponse()
        text = answer.read()
        if answer.status != http.client.ACCEPTED:
            raise SystemExit(f"a send was answered {answer.status}: {text!r}")
        took.append(time.perf_counter() - started)
    client.close()
    return took


def headers_of(sender: Sender, key: str) -> Mapping[str, str]:
    """Return the headers of one send."""
    return {
        "Authorization": f"Bearer {sender.api_key}",
        "Idempotency-Key": key,
        "Content-Type": "application/json",
    }


def report(rounds: Sequence[Round]) -> int:
    """Print and write the figures; return the exit code."""
    per_second = {
        tenants: median(one.per_second for one in rounds if one.tenants == tenants)
        for tenants in (1, CLIENTS)
    }
    ratio = per_second[1] / per_second[CLIENTS]
    for one in rounds:
        sys.stdout.write(
            f"  tenants {one.tenants:>2}: {one.per_second:7.1f} sends/s,"
            f" p50 {one.p50_ms:6.1f} ms, p95 {one.p95_ms:6.1f} ms\n"
        )
    sys.stdout.write(
        f"tenants: {CLIENTS} clients, median of {ROUNDS} rounds of {SECONDS:.0f} s:"
        f" one tenant {per_second[1]:.1f} sends/s, {CLIENTS} tenants"
        f" {per_second[CLIENTS]:.1f}, ratio {ratio:.2f} (goal: {GOAL} or more)\n"
    )
    write(rounds, per_second, ratio)
    return 0 if ratio >= GOAL else 1


def write(
    rounds: Sequence[Round], per_second: Mapping[int, float], ratio: float
) -> None:
    """Write all figures with the machine they are of."""
    RESULTS.parent.mkdir(exist_ok=True)
    figures = {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": f"{platform.machine()}, {os.cpu_count()} processors",
        "load_average": os.getloadavg(),
        "clients": CLIENTS,
        "web_processes": int(os.environ["PM_WEB_WORKERS"]),
        "one_tenant_per_second": per_second[1],
        "many_tenants_per_second": per_second[CLIENTS],
        "ratio": ratio,
        "rounds": [asdict(one) for one in rounds],
    }
    RESULTS.write_text(json.dumps(figures, indent=2) + "\n")


if __name__ == "__main__":
    sys.exit(main())
