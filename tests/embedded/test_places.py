"""Folders: closed, too long, oddly named, linked, or somebody else's."""

import stat
from pathlib import Path

import dj_database_url
import psycopg.conninfo
import pytest

from tests.support.embedded_place import Place


@pytest.mark.parametrize(
    ("name", "below"),
    [
        ("Mixed Case %2F é", True),
        ("quite-long-" + "x" * 20, True),
        ("far-too-long-" + "x" * 90, False),
        ("comma, comma", False),
        ("O'Neil", False),
        ('say "so"', False),
    ],
)
def test_a_folder_of_any_name_gives_a_url_that_works(
    place: Place, name: str, below: bool
) -> None:
    # Given a data folder whose socket may not fit below it
    data_dir = place.data_dir.rename(place.folder / name)

    # When two processes use it
    try:
        starter, other = place.actor(data_dir), place.actor(data_dir)
        url = starter.listen()["url"]
        assert other.listen()["url"] == url

        # Then Django and libpq find the same socket folder, and it works
        host = dj_database_url.parse(url)["HOST"]
        assert psycopg.conninfo.conninfo_to_dict(url)["host"] == host
        assert (host == str(data_dir / "postgres" / "run")) is below
        assert other.query("SELECT 1") == [[1]]
        assert starter.leave() == other.leave() == 0
        if not below:
            Path(str(host)).rmdir()  # nothing of the server is left in it
    finally:
        place.end_processes()
        data_dir.rename(place.data_dir)


def test_the_first_closed_folder_is_named_before_anything_is_made(
    bare: Place,
) -> None:
    # Given two closed folders on the way
    outer = bare.make("open")
    closed = outer / "closed"
    inner = closed / "also-closed"
    inner.mkdir(parents=True)
    for folder in (inner, closed):
        bare.give(folder)
        folder.chmod(0o700 if bare.account.uid == 0 else 0o600)

    line = bare.refusal(inner / "var")

    assert line == (
        f"The user {bare.server_user.name}, who runs PostgreSQL, cannot enter {closed}."
        f" Open it (chmod o+x {closed}), or set another PM_DATA_DIR."
    )
    closed.chmod(0o755)
    inner.chmod(0o755)
    assert list(inner.iterdir()) == []


def test_a_base_folder_that_is_a_link_is_refused(bare: Place) -> None:
    elsewhere = bare.make("elsewhere")
    bare.make("var")
    bare.base.symlink_to(elsewhere)

    line = bare.refusal()

    assert line == f"{bare.base} is not a folder. Move it away."
    assert list(elsewhere.iterdir()) == []


@pytest.mark.parametrize("name", ["server.log", "start.lock"])
def test_a_link_in_the_place_of_a_file_is_not_followed(place: Place, name: str) -> None:
    target = place.folder / "precious"
    target.write_text("precious")
    kept = (place.base / name).rename(place.base / "kept")
    (place.base / name).symlink_to(target)

    line = place.refusal()

    kept.rename(place.base / name)
    assert line == (
        f"{place.base / name}: Too many levels of symbolic links."
        " Correct that, or set another PM_DATA_DIR."
    )
    assert target.read_text() == "precious"


def test_a_data_folder_that_is_none_is_refused(bare: Place) -> None:
    data = bare.empty_cluster() / "data"
    (data / "PG_VERSION").unlink()

    assert bare.refusal() == (
        f"{data} is not a PostgreSQL data folder (No such file or directory:"
        " PG_VERSION). Move it away."
    )


def test_a_socket_folder_somebody_else_prepared_is_refused(copy: Place) -> None:
    # Given a first run that told where the socket goes, and a link put there since
    data_dir = copy.data_dir.rename(copy.folder / "comma, comma")
    actor = copy.actor(data_dir)
    folder = Path(str(dj_database_url.parse(actor.listen()["url"])["HOST"]))
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    actor.leave()
    folder.rmdir()
    folder.symlink_to(copy.make("trap"))
    try:
        line = copy.refusal(data_dir)
    finally:
        folder.unlink()

    assert line == f"{folder} is not a folder. Move it away."


def test_without_the_package_the_next_step_is_said(bare: Place) -> None:
    line = bare.refusal(environment={"PM_EMBEDDED_POSTGRES": "no_such_package"})

    assert line == (
        "The package no_such_package is not installed."
        " Run `make setup`, or set DATABASE_URL to a PostgreSQL of yours."
    )
