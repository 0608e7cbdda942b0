"""``python -m chaos.proof``: a harness that cannot fail proves nothing.

Runs the harness against six deliberate mistakes, one after the other. It ends with 0
only when every one of them was caught.
"""

import argparse
import subprocess
import sys
import time
from typing import Final

from chaos.mutants import MUTANTS
from chaos.profiles import TOO_LITTLE

CAUGHT: Final = 1
"""How a run ends that has found something; 2 and more mean that there was no run."""


def main() -> int:
    """Run each mutant; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m chaos.proof")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--broker", choices=("memory", "amqp", "redis"))
    parser.add_argument("mutants", nargs="*", metavar="MUTANT")
    given = parser.parse_args()
    more = ["--broker", given.broker] if given.broker else []
    wanted = given.mutants or list(MUTANTS)
    caught = [one for one in wanted if is_caught(one, seed=given.seed, more=more)]
    print(f"mutants={len(wanted)} caught={len(caught)}")
    return 0 if caught == wanted else 1


def is_caught(mutant: str, *, seed: int, more: list[str]) -> bool:
    """Run the harness against one mistake, and say by what it was caught."""
    began = time.monotonic()
    done = subprocess.run(
        [
            *(sys.executable, "-m", "chaos", "--profile", "mutant", "--mutant", mutant),
            *("--seed", str(seed), *more),
        ],
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    lines = done.stdout.splitlines()
    found = [
        line
        for line in lines
        if line.startswith("does not hold: ") and TOO_LITTLE not in line
    ]
    is_good = done.returncode == CAUGHT and bool(found)
    said = "caught" if is_good else "NOT CAUGHT"
    print(f"{mutant}: {said} in {time.monotonic() - began:.0f} s")
    for line in found[:3] if is_good else lines[-20:]:
        print(f"    {line}")
    sys.stdout.flush()
    return is_good


if __name__ == "__main__":
    sys.exit(main())
