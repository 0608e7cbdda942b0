"""The object store on a real disk: durable, private, and never waited for too long."""

import errno
import json
import os
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC
from pathlib import Path
from typing import Any

import pytest
from django.core.exceptions import SuspiciousOperation
from django.core.files.base import ContentFile
from django.core.files.storage import storages

from core import disk, objects, patience
from core.disk import DurableFileStorage
from core.errors import Unavailable

KEY = "t/ten_1/i/idn_1/out/msg_1.eml"
METADATA = {"tenant": "ten_1", "idem_key_sha256": "ab" * 32, "operation": "send"}


@pytest.fixture
def root(tmp_path: Path, settings: Any) -> Path:
    """The folder of a fresh store, below a folder that does not exist yet."""
    place = tmp_path / "var" / "objects"
    settings.STORAGES = {
        **settings.STORAGES,
        "objects": {
            "BACKEND": "core.objects.DurableFileStorage",
            "OPTIONS": {"location": str(place)},
        },
    }
    return place


def test_what_is_put_comes_back_until_it_is_deleted(root: Path) -> None:
    objects.put(KEY, b"body\x00\xff", metadata=METADATA)

    assert objects.get(KEY) == b"body\x00\xff"
    assert objects.metadata(KEY) == METADATA
    assert objects.exists(KEY)

    objects.delete(KEY)
    objects.delete(KEY)
    assert not objects.exists(KEY)
    assert [p for p in root.rglob("*") if p.is_file()] == []


def test_a_second_put_replaces_the_first(root: Path) -> None:
    objects.put(KEY, b"first", metadata={"n": "1", "old": "x"})
    objects.put(KEY, b"second", metadata={"n": "2"})

    assert (objects.get(KEY), objects.metadata(KEY)) == (b"second", {"n": "2"})
    assert len([p for p in root.rglob("*") if p.is_file()]) == 2


@pytest.mark.parametrize("call", [objects.get, objects.metadata])
def test_a_missing_object_is_said_to_be_missing(root: Path, call: Any) -> None:
    with pytest.raises(objects.ObjectMissing):
        call(KEY)
    assert objects.exists(KEY) is False


def test_the_sidecar_stands_before_the_body_and_all_is_flushed_in_order(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = record_steps(monkeypatch)

    objects.put(KEY, b"body", metadata=METADATA)

    folder = root / "t/ten_1/i/idn_1/out"
    made = [*reversed(folder.relative_to(root.parent.parent).parents)][1:]
    assert steps == [
        # every folder's entry, from the outside in
        *(("flush", str((root.parent.parent / f).parent)) for f in made),
        ("flush", str(folder.parent)),
        ("flush", "aside"),
        ("rename", str(folder / "msg_1.eml.meta")),
        ("flush", "aside"),
        ("rename", str(folder / "msg_1.eml")),
        ("flush", str(folder)),
    ]

    # the folders are known now: the next one costs three flushes
    steps.clear()
    objects.put(KEY.replace("msg_1", "msg_2"), b"body", metadata=METADATA)
    assert [step for step, _ in steps] == [
        "flush",
        "rename",
        "flush",
        "rename",
        "flush",
    ]


def record_steps(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """Trace the calls that make files durable; they still happen."""
    steps: list[tuple[str, str]] = []
    fsync, replace = os.fsync, os.replace

    def traced_fsync(descriptor: int) -> None:
        fsync(descriptor)
        place = os.readlink(f"/proc/self/fd/{descriptor}")
        steps.append(("flush", "aside" if place.endswith(".tmp") else place))

    def traced_replace(source: Path, target: Path) -> None:
        replace(source, target)
        steps.append(("rename", str(target)))

    monkeypatch.setattr(os, "fsync", traced_fsync)
    monkeypatch.setattr(os, "replace", traced_replace)
    return steps


@pytest.mark.parametrize("failing_at", [1, 2, 3])
def test_a_crash_between_two_steps_leaves_no_body_without_metadata(
    root: Path, monkeypatch: pytest.MonkeyPatch, failing_at: int
) -> None:
    objects.put(KEY.replace("msg_1", "first"), b"", metadata={})
    calls = 0
    fsync = os.fsync

    def failing(descriptor: int) -> None:
        nonlocal calls
        calls += 1
        if calls == failing_at:
            raise OSError(errno.EIO, "the disk is gone")
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", failing)
    with pytest.raises(objects.ObjectStoreAway) as caught:
        objects.put(KEY, b"a secret", metadata=METADATA)

    assert "secret" not in str(caught.value)
    assert isinstance(caught.value, Unavailable)
    path = root / KEY
    sidecar = path.with_name(path.name + ".meta")
    assert not path.exists() or json.loads(sidecar.read_bytes()) == METADATA
    assert list(root.rglob("*.tmp")) == []


def test_files_and_folders_are_their_owners_alone(root: Path) -> None:
    before = os.umask(0)
    try:
        objects.put(KEY, b"body", metadata=METADATA)
    finally:
        os.umask(before)

    modes = {p.stat().st_mode & 0o777 for p in root.rglob("*") if p.is_file()}
    assert modes == {0o600}
    folders = [root, *(p for p in root.rglob("*") if p.is_dir())]
    assert {p.stat().st_mode & 0o777 for p in folders} == {0o700}


@pytest.mark.parametrize(
    "key",
    ["", "/etc/passwd", "../x", "a/../../x", "a/./x", "a//b", "a/", ".hidden", "a/.x",
     "a\x00b", "a\nb", "a b", "é", "x.meta", "a\\b", "x" * 201, "a/" * 300 + "x"],
)  # fmt: skip
@pytest.mark.parametrize("call", ["put", "get", "metadata", "delete", "exists"])
def test_keys_never_leave_the_root(root: Path, key: str, call: str) -> None:
    arguments: dict[str, Any] = {"body": b"x", "metadata": {}} if call == "put" else {}
    with pytest.raises(ValueError, match="relative path"):
        getattr(objects, call)(key, **arguments)
    assert not root.exists()


@pytest.mark.parametrize("key", ["../x", "/etc/passwd", "a/../../x"])
def test_the_storage_itself_refuses_them_too(root: Path, key: str) -> None:
    with pytest.raises(SuspiciousOperation):
        DurableFileStorage(location=str(root)).write(key, b"", {})


def test_a_folder_removed_by_somebody_is_made_again(root: Path) -> None:
    objects.put(KEY, b"one", metadata={})
    objects.delete(KEY)
    (root / KEY).parent.rmdir()

    objects.put(KEY, b"two", metadata={})

    assert objects.get(KEY) == b"two"


def test_djangos_own_way_of_saving_is_durable_too(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = record_steps(monkeypatch)

    storages["objects"].save("a/file.txt", ContentFile(b"saved"))

    assert objects.get("a/file.txt") == b"saved"
    assert [kind for kind, _ in steps][-5:] == ["flush", "rename"] * 2 + ["flush"]


def test_many_writers_of_one_folder_all_succeed(root: Path) -> None:
    keys = [f"t/ten_{n % 4}/i/idn_{n}/out/msg_{n}.eml" for n in range(64)]
    with ThreadPoolExecutor(16) as pool:
        list(pool.map(lambda k: objects.put(k, k.encode(), metadata={"k": k}), keys))

    assert all(objects.get(key) == key.encode() for key in keys)
    assert all(objects.metadata(key) == {"k": key} for key in keys)


@pytest.fixture
def hung(root: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """A disk whose flushes hang until the event is set, and little patience."""
    released = threading.Event()
    fsync = os.fsync

    def hanging(descriptor: int) -> None:
        released.wait(30)
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", hanging)
    monkeypatch.setattr(objects, "SECONDS", 0.1)
    monkeypatch.setattr(objects, "_threads", patience.Impatient("hung", threads=2))
    yield released
    released.set()


def test_a_hung_disk_is_away_in_time_and_costs_no_more_threads(
    root: Path, hung: threading.Event
) -> None:
    for number in range(5):
        with pytest.raises(objects.ObjectStoreAway, match="does not answer"):
            objects.put(f"a/{number}", b"x" * 100, metadata={})
    assert len([t for t in threading.enumerate() if t.name.startswith("hung-")]) == 2

    hung.set()
    objects.SECONDS = 10.0
    objects.put(KEY, b"after", metadata={})
    assert objects.get(KEY) == b"after"
    assert not objects.exists("a/4"), "what was given up is not written later"


def test_the_limit_is_ten_seconds() -> None:
    assert objects.SECONDS == 10.0


@pytest.mark.parametrize("call", ["put", "get", "metadata", "delete", "exists"])
def test_any_failure_of_a_backend_is_the_store_being_away(
    root: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("s3cr3t content")

    for name in ("write", "read", "read_metadata", "remove", "exists"):
        monkeypatch.setattr(disk.DurableFileStorage, name, broken)
    arguments: dict[str, Any] = {"body": b"x", "metadata": {}} if call == "put" else {}
    with pytest.raises(objects.ObjectStoreAway) as caught:
        getattr(objects, call)(KEY, **arguments)

    assert str(caught.value) == "the object store failed (RuntimeError)"
    assert (caught.value.code, caught.value.status) == ("unavailable", 503)
    assert caught.value.retryable


def test_a_root_that_is_no_folder_is_the_store_being_away(root: Path) -> None:
    root.parent.mkdir(parents=True)
    root.write_text("in the way")

    with pytest.raises(objects.ObjectStoreAway):
        objects.put(KEY, b"x", metadata={})


def test_keys_are_listed_in_one_order_and_in_turns(root: Path) -> None:
    # Given objects, sidecars beside them, and one that is just being written
    folder = "t/ten_1/i/idn_1/out"
    keys = [f"{folder}/msg_1.eml", f"{folder}/msg_1/a/att_1", f"{folder}/msg_2.eml"]
    assert objects.listing(limit=9) == []
    for key in keys:
        objects.put(key, b"body", metadata=METADATA)
    (root / folder / ".0123456789abcdef.tmp").write_bytes(b"half")

    # When they are listed, one at a time
    found: list[str] = []
    while page := objects.listing(after=found[-1] if found else "", limit=1):
        found += [key for key, _ in page]

    # Then each is named once, also past one that has gone meanwhile
    whole = objects.listing(limit=9)
    assert sorted(found) == sorted(keys)
    assert [key for key, _ in whole] == found
    objects.delete(found[1])
    assert [key for key, _ in objects.listing(after=found[1], limit=9)] == found[2:]
    assert {at.tzinfo for _, at in whole} == {UTC}
