"""``python -m chaos --seed N --profile ci|release [--broker memory|amqp|redis]``.

Its last line is the result; it ends with 1 when something does not hold, each breach in
a line of its own, and with 2 when there was no run. What the processes wrote stays in
the folder that it then names. Without a seed one is drawn and told.
"""

import argparse
import os
import secrets
import shutil
import signal
import sys
import tempfile
from pathlib import Path

from chaos.mutants import MUTANTS
from chaos.profiles import PACE, PROFILES
from chaos.provider import SETTINGS

SHOWN = 40


def main() -> int:
    """Run once; return the exit code."""
    given = _arguments()
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(2))
    folder = Path(tempfile.mkdtemp(prefix="pylota-chaos-"))
    folder.chmod(0o755)  # the database's user must get to its part
    is_good = False
    try:
        is_good = run(given, folder)
    finally:
        tidy(folder, keeps_log=not (is_good or given.mutant))
    return 0 if is_good else 1


def tidy(folder: Path, *, keeps_log: bool) -> None:
    """Remove all that the run has made, but for what its processes wrote, if wanted."""
    log = folder / "log"
    if not keeps_log or not log.exists():
        shutil.rmtree(folder, ignore_errors=True)
        return
    for part in folder.iterdir():
        if part.is_dir() and part != log:
            shutil.rmtree(part, ignore_errors=True)
        elif part != log:
            part.unlink()
    print(f"what the processes wrote: {log}")


def run(given: argparse.Namespace, folder: Path) -> bool:
    """Make the run and print what it comes to; tell whether all holds."""
    for name in [one for one in os.environ if one.startswith(("PM_", "CELERY"))]:
        del os.environ[name]
    os.environ.update(
        PACE,
        **SETTINGS,
        PM_ENV="local",
        PM_DATA_DIR=str(folder),
        DJANGO_SETTINGS_MODULE="pylota.settings",
    )
    os.environ.pop("DATABASE_URL", None)
    import django

    django.setup()
    from chaos.broker import NoBroker, found
    from chaos.run import Run

    try:
        queue = found(given.broker, folder)
    except NoBroker as error:
        sys.exit(f"chaos: {error}")
    print(f"seed {given.seed}, profile {given.profile}, broker {queue.scheme}")
    judged = Run(
        PROFILES[given.profile],
        seed=given.seed,
        folder=folder,
        queue=queue,
        mutant=given.mutant,
    ).judged()
    for breach in judged.breaches[:SHOWN]:
        print(f"does not hold: {breach}")
    if more := judged.breaches[SHOWN:]:
        print(f"and {len(more)} more")
    print(judged.line)
    return not judged.breaches


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m chaos")
    parser.add_argument("--seed", type=int, default=secrets.randbelow(10**6))
    parser.add_argument("--profile", choices=sorted(PROFILES), default="ci")
    parser.add_argument("--broker", choices=("memory", "amqp", "redis"))
    parser.add_argument("--mutant", choices=sorted(MUTANTS), default="")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
