"""Files that are not handed out: each line of the table, and what is harmless."""

import gzip
import zipfile
from io import BytesIO

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inbound.risks import Judged, judge_file

OPAQUE = "application/octet-stream"
OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600)


def archive(**entries: bytes) -> bytes:
    return zipped({name.replace("_", "."): data for name, data in entries.items()})


def zipped(entries: dict[str, bytes]) -> bytes:
    written = BytesIO()
    with zipfile.ZipFile(written, "w", zipfile.ZIP_DEFLATED) as made:
        for name, data in entries.items():
            made.writestr(name, data)
    return written.getvalue()


def locked(content: bytes) -> bytes:
    """Set the bit of an archive's directory that says encrypted."""
    place = content.index(b"PK\x01\x02")
    return content[: place + 8] + b"\x01" + content[place + 9 :]


def nested(levels: int) -> bytes:
    made = archive(a_txt=b"x")
    for _ in range(levels - 1):
        made = archive(inner_zip=made)
    return made


@pytest.mark.parametrize(
    ("name", "declared", "content", "risk"),
    [
        ("a.png", "image/png", b"MZ\x90", "executable"),
        ("a", OPAQUE, b"\x7fELF", "executable"),
        ("a", OPAQUE, b"\xcf\xfa\xed\xfe", "executable"),
        ("a.txt", "text/plain", b"#!/bin/sh", "executable"),
        ("a", OPAQUE, b"L\x00\x00\x00\x01\x14\x02\x00", "executable"),
        ("a", OPAQUE, bytes(32769) + b"CD001", "executable"),
        ("a.JS", "text/plain", b"alert(1)", "executable"),
        ("a.exe. ", OPAQUE, b"x", "executable"),
        ("a.zip", "application/zip", archive(b_exe=b"x"), "executable"),
        (
            "a.zip",
            "application/zip",
            zipped({"META-INF/MANIFEST.MF": b"x"}),
            "executable",
        ),
        (
            "a.zip",
            "application/zip",
            archive(b_zip=archive(c_vbs=b"x")),
            "executable",
        ),
        ("a.docm", OPAQUE, b"x", "macro"),
        ("a.docx", OPAQUE, zipped({"word/vbaProject.bin": b"x"}), "macro"),
        ("a.doc", OPAQUE, OLE + "_VBA_PROJECT".encode("utf-16-le"), "macro"),
        ("a.zip", "application/zip", archive(b_txt=bytes(2_000_000)), "archive_bomb"),
        (
            "a.gz",
            "application/gzip",
            gzip.compress(bytes(2_000_000), mtime=0),
            "archive_bomb",
        ),
        ("a.zip", "application/zip", nested(3), "archive_bomb"),
        ("a.zip", "application/zip", locked(archive(b_txt=b"x")), "encrypted_archive"),
        ("a.rar", OPAQUE, b"Rar!\x1a\x07", "encrypted_archive"),
        ("a.7z", OPAQUE, b"7z\xbc\xaf\x27\x1c", "encrypted_archive"),
        ("a.cab", OPAQUE, b"MSCF", "encrypted_archive"),
        ("a.png", "image/png", archive(b_txt=b"x"), "type_mismatch"),
        ("a.pdf", "application/pdf", b"<!DOCTYPE html>", "type_mismatch"),
        (None, "image/png", b" <script>x()", "type_mismatch"),
        ("a.jpg", "image/jpeg", OLE, "type_mismatch"),
        ("a.pdf", "application/pdf", b"%PDF-1.7 /Encrypt", "encrypted_document"),
        (
            "a.xlsx",
            OPAQUE,
            OLE + "EncryptedPackage".encode("utf-16-le"),
            "encrypted_document",
        ),
        (
            "a.odt",
            OPAQUE,
            zipped({"META-INF/manifest.xml": b"<manifest:encryption-data/>"}),
            "encrypted_document",
        ),
        ("a.pdf", "application/pdf", b"%PDF-1.7", None),
        ("a.png", "image/png", b"\x89PNG\r\n\x1a\n", None),
        ("a.zip", "application/zip", archive(b_txt=b"x"), None),
        ("a.zip", "application/zip", nested(2), None),
        ("a.docx", OPAQUE, zipped({"word/document.xml": b"x"}), None),
        ("a.html", "text/html", b"<html>", None),
        (None, "text/html", b"<html>", None),
        (None, OPAQUE, archive(b_txt=b"x"), None),
        ("a.doc", "application/msword", OLE, None),
        ("a.txt", "text/plain", b"hello", None),
        ("a.zip", "application/zip", b"PK\x03\x04 and no more", None),
        ("a.gz", "application/gzip", gzip.compress(b"hello", mtime=0), None),
        (None, OPAQUE, b"", None),
    ],
)
def test_each_line_of_the_table(
    name: str | None, declared: str, content: bytes, risk: str | None
) -> None:
    assert judge_file(name, declared, content).risk == risk


@given(
    st.none() | st.text(max_size=20),
    st.sampled_from(
        [b"PK\x03\x04", b"PK\x05\x06", b"\x1f\x8b", b"%PDF-", b"<html", b""]
    ),
    st.binary(max_size=300),
)
def test_any_file_is_judged(name: str | None, start: bytes, rest: bytes) -> None:
    judged = judge_file(name, OPAQUE, start + rest)

    assert isinstance(judged, Judged)


@given(st.binary(max_size=40), st.integers(0, 200))
def test_a_damaged_archive_is_judged(damage: bytes, place: int) -> None:
    whole = archive(a_txt=b"x" * 50, b_zip=archive(c_txt=b"y"))

    broken = whole[:place] + damage + whole[place + len(damage) :]
    judged = judge_file("a.zip", OPAQUE, broken)

    assert isinstance(judged, Judged)
