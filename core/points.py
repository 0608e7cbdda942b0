"""Named points of the send path, where a test may stop, kill or freeze the process.

In a running deployment nothing is planted and ``reach`` returns at once.
"""

from collections.abc import Callable

planted: dict[str, Callable[[], None]] = {}


def reach(name: str) -> None:
    """Do what a test has planted at this point; by default, nothing."""
    if planted and (action := planted.get(name)) is not None:
        action()
