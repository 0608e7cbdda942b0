"""Refuse white space at line ends, a missing last newline, and TOML that is none.

For pre-commit: the arguments are file names; what is wrong is printed, one line each.
"""

import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path


def faults(path: Path) -> Iterator[str]:
    """Yield what is wrong with one text file."""
    text = path.read_text(encoding="utf-8")
    for number, line in enumerate(text.split("\n"), start=1):
        if line != line.rstrip(" \t\r"):
            yield f"{path}:{number}: white space at the end of the line"
    if text and not text.endswith("\n"):
        yield f"{path}: no newline at the end"
    if path.suffix == ".toml":
        try:
            tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            yield f"{path}: {error}"


def main(names: list[str]) -> int:
    """Check the named files; return 1 if anything is wrong."""
    found = [fault for name in names for fault in faults(Path(name))]
    for fault in found:
        sys.stdout.write(fault + "\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
