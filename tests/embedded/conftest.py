"""People, places and a prepared cluster for each of them."""

import itertools
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pylota.embedded import binaries
from tests.support.embedded_place import PEOPLE, Place, account_of

# What only root can try stands in a file of its own: a user does not collect it.
collect_ignore = [] if os.geteuid() == 0 else ["test_root.py"]

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def ground() -> Iterator[Path]:
    """A folder that everybody may enter, with a short path."""
    folder = Path(tempfile.mkdtemp(prefix="pylota-")).resolve()
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(scope="session")
def install(ground: Path) -> Path:
    """The server's programs where every user may run them."""
    return binaries.copied(binaries.installed(), ground).install


@pytest.fixture(scope="session")
def cluster_of(ground: Path, install: Path) -> Iterator[Callable[[str], Place]]:
    """Return the person's place with a cluster, made at the first request."""
    made: dict[str, Place] = {}

    def cluster(person: str) -> Place:
        if person not in made:
            place = _new_place(person, ground, install)
            actor = place.actor()
            assert "url" in actor.listen()
            assert actor.leave() == 0
            # processes are killed here, never the machine: nothing is lost without it
            with (place.base / "data" / "postgresql.conf").open("a") as settings:
                settings.write("fsync = off\n")
            made[person] = place
        return made[person]

    yield cluster
    for place in made.values():
        place.remove()


@pytest.fixture(params=PEOPLE)
def bare(
    request: pytest.FixtureRequest, ground: Path, install: Path
) -> Iterator[Place]:
    """An empty place of each person that this process can play."""
    place = _new_place(request.param, ground, install)
    yield place
    place.remove()


@pytest.fixture
def quick(ground: Path, install: Path) -> Iterator[Place]:
    """An empty place of the person that runs the tests, who starts as all others do.

    As root, that is two users: the one who starts, and the one who runs the server. Its
    clusters do not wait for the disk.
    """
    place = _new_place(PEOPLE[0], ground, install, fast=True)
    yield place
    place.remove()


@pytest.fixture(params=PEOPLE)
def place(
    request: pytest.FixtureRequest, cluster_of: Callable[[str], Place]
) -> Iterator[Place]:
    """Each person's place with a cluster: shared, so a test leaves it whole."""
    shared = cluster_of(request.param)
    yield shared
    shared.end_processes()


@pytest.fixture(params=PEOPLE)
def copy(
    request: pytest.FixtureRequest,
    ground: Path,
    install: Path,
    cluster_of: Callable[[str], Place],
) -> Iterator[Place]:
    """A place of each person with a copy of a cluster, to be spoiled."""
    place = _new_place(request.param, ground, install, fast=True)
    place.copy_cluster(cluster_of(request.param).base, place.data_dir)
    yield place
    place.remove()


@pytest.fixture
def roots(cluster_of: Callable[[str], Place]) -> Iterator[Place]:
    """Root's place with a cluster: shared, so a test leaves it whole."""
    shared = cluster_of("root")
    yield shared
    shared.end_processes()


@pytest.fixture
def roots_bare(ground: Path, install: Path) -> Iterator[Place]:
    """An empty place of root, for clusters that do not wait for the disk."""
    place = _new_place("root", ground, install, fast=True)
    yield place
    place.remove()


def _new_place(
    person: str, ground: Path, install: Path, *, fast: bool = False
) -> Place:
    folder = ground / str(next(_numbers))
    folder.mkdir()
    place = Place(folder, account_of(person), install, fast)
    place.give(folder)
    return place
