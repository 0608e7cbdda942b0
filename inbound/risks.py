"""What a file is by its octets, and why it is not handed out to everybody. Pure.

Mailboxes, section 5: the first line of its table that fits. Archives are looked into by
their directories; nothing is unpacked but archives inside, as far as a bound.
"""

import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from io import BytesIO
from pathlib import PurePosixPath
from typing import Final, Literal

Risk = Literal[
    "executable",
    "macro",
    "archive_bomb",
    "encrypted_archive",
    "type_mismatch",
    "encrypted_document",
]

SNIFFED: Final = 8192
"""Octets at the start of a file that say what it is."""
UNPACKED_LIMIT: Final = 100 * 2**20
RATIO_LIMIT: Final = 100
ENTRIES_LIMIT: Final = 10_000
NESTING_LIMIT: Final = 2
"""Archives that may stand inside each other."""
INNER_ARCHIVES: Final = 10
"""Archives inside that are looked into."""
INNER_LIMIT: Final = 16 * 2**20
"""Octets of an archive inside that are unpacked to be looked into."""

_EXECUTABLE: Final = frozenset(
    {
        "exe", "dll", "scr", "com", "bat", "cmd", "ps1", "psm1", "vbs", "vbe", "js",
        "jse", "wsf", "wsh", "hta", "msi", "msp", "lnk", "jar", "apk", "app", "dmg",
        "iso", "img", "vhd", "vhdx", "reg", "cpl", "pif", "sh", "scf", "url",
    }
)  # fmt: skip
_MACRO: Final = frozenset(
    {
        "docm", "dotm", "xlsm", "xltm", "xlam", "pptm", "potm", "ppam", "sldm",
    }
)  # fmt: skip
_ZIPPED: Final = frozenset(
    {
        "zip", "docx", "dotx", "xlsx", "xltx", "pptx", "potx", "ppsx", "odt", "ods",
        "odp", "odg", "epub", "vsdx",
    }
)  # fmt: skip
_OLE_NAMES: Final = frozenset(
    {
        "doc", "dot", "xls", "xlt", "ppt", "pps", "pot", "msg", "vsd", "pub",
    }
)  # fmt: skip
_PAGES: Final = frozenset(
    {
        "html", "htm", "xhtml", "shtml", "svg", "xml", "mht", "eml", "txt",
    }
)  # fmt: skip
_SIGNATURES: Final = (
    (b"MZ", "application/x-dosexec"),
    (b"\x7fELF", "application/x-elf"),
    (b"\xfe\xed\xfa\xce", "application/x-mach-binary"),
    (b"\xfe\xed\xfa\xcf", "application/x-mach-binary"),
    (b"\xce\xfa\xed\xfe", "application/x-mach-binary"),
    (b"\xcf\xfa\xed\xfe", "application/x-mach-binary"),
    (b"\xca\xfe\xba\xbe", "application/x-mach-binary"),
    (b"L\x00\x00\x00\x01\x14\x02\x00", "application/x-ms-shortcut"),
    (b"#!", "text/x-script"),
    (b"Rar!\x1a\x07", "application/x-rar"),
    (b"7z\xbc\xaf\x27\x1c", "application/x-7z-compressed"),
    (b"MSCF", "application/vnd.ms-cab-compressed"),
    (b"PK\x03\x04", "application/zip"),
    (b"PK\x05\x06", "application/zip"),
    (b"\x1f\x8b", "application/gzip"),
    (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "application/x-ole-storage"),
    (b"%PDF-", "application/pdf"),
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF8", "image/gif"),
)
_PROGRAMS: Final = frozenset(kind for _, kind in _SIGNATURES[:9])
_CLOSED: Final = frozenset(kind for _, kind in _SIGNATURES[9:12])
_ENCRYPTED_PACKAGE: Final = "EncryptedPackage".encode("utf-16-le")
_PAGE_STARTS: Final = (b"<!doctype html", b"<html", b"<script", b"<head", b"<body")


@dataclass(frozen=True, slots=True)
class Judged:
    """What a file is by its octets, if that shows, and its risk, if there is one."""

    sniffed_type: str | None
    risk: Risk | None


@dataclass(frozen=True, slots=True)
class _Zip:
    """What the directories of an archive say, and those of archives inside it."""

    names: tuple[str, ...]
    unpacked: int
    packed: int
    is_encrypted: bool
    depth: int
    is_encrypted_document: bool


def judge_file(filename: str | None, declared: str, content: bytes) -> Judged:
    """Return what a file is, and the first risk of the table that fits it."""
    sniffed = _sniffed(content)
    directory = _directory(content) if sniffed == "application/zip" else None
    extension = _extension(filename or "")
    risk: Risk | None = None
    if _is_executable(sniffed, extension, directory):
        risk = "executable"
    elif _has_macros(sniffed, extension, content, directory):
        risk = "macro"
    elif _is_bomb(sniffed, content, directory):
        risk = "archive_bomb"
    elif sniffed in _CLOSED or (directory is not None and directory.is_encrypted):
        risk = "encrypted_archive"
    elif _is_disguised(sniffed, extension, declared, content):
        risk = "type_mismatch"
    elif _is_encrypted_document(sniffed, content, directory):
        risk = "encrypted_document"
    return Judged(sniffed, risk)


def _sniffed(content: bytes) -> str | None:
    for signature, kind in _SIGNATURES:
        if content.startswith(signature):
            return kind
    if content[32769:32774] == b"CD001":
        return "application/x-iso9660-image"
    start = content[:SNIFFED].lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    return "text/html" if start.startswith(_PAGE_STARTS) else None


def _is_executable(sniffed: str | None, extension: str, directory: _Zip | None) -> bool:
    if sniffed in _PROGRAMS or sniffed == "application/x-iso9660-image":
        return True
    if extension in _EXECUTABLE:
        return True
    names = directory.names if directory else ()
    inside = {_extension(name) for name in names} | {
        "jar" for name in names if name == "META-INF/MANIFEST.MF"
    }
    return bool(inside & _EXECUTABLE)


def _has_macros(
    sniffed: str | None, extension: str, content: bytes, directory: _Zip | None
) -> bool:
    if extension in _MACRO:
        return True
    if sniffed == "application/x-ole-storage":
        return "_VBA_PROJECT".encode("utf-16-le") in content
    names = directory.names if directory else ()
    return any(name.lower().endswith("vbaproject.bin") for name in names)


def _is_bomb(sniffed: str | None, content: bytes, directory: _Zip | None) -> bool:
    if sniffed == "application/gzip":
        unpacked = int.from_bytes(content[-4:], "little")
        return unpacked > RATIO_LIMIT * len(content)
    return directory is not None and (
        directory.unpacked > UNPACKED_LIMIT
        or directory.unpacked > RATIO_LIMIT * max(1, directory.packed)
        or len(directory.names) > ENTRIES_LIMIT
        or directory.depth > NESTING_LIMIT
    )


def _is_disguised(
    sniffed: str | None, extension: str, declared: str, content: bytes
) -> bool:
    """Tell whether content that acts bears the name or type of another family."""
    allowed: frozenset[str]
    kinds: tuple[str, ...]
    match sniffed:
        case "application/zip":
            allowed, kinds = _ZIPPED, ("zip", "openxml", "opendocument", "epub")
        case "application/x-ole-storage":
            # an encrypted OOXML document keeps its name, in such a container
            is_locked = _ENCRYPTED_PACKAGE in content
            allowed = _OLE_NAMES | _ZIPPED if is_locked else _OLE_NAMES
            kinds = ("msword", "ms-", "ole", "outlook", "openxml")
        case "text/html":
            allowed, kinds = _PAGES, ("text/", "html", "xml")
        case _:
            return False
    if extension:
        return extension not in allowed
    is_open = declared == "application/octet-stream"
    return not is_open and not any(kind in declared for kind in kinds)


def _is_encrypted_document(
    sniffed: str | None, content: bytes, directory: _Zip | None
) -> bool:
    if sniffed == "application/pdf":
        return b"/Encrypt" in content
    if sniffed == "application/x-ole-storage":
        return _ENCRYPTED_PACKAGE in content
    return directory is not None and directory.is_encrypted_document


def _directory(content: bytes, depth: int = 1) -> _Zip | None:
    """Return what an archive's directory says; None for one that cannot be read."""
    try:
        with zipfile.ZipFile(BytesIO(content)) as archive:
            entries = archive.infolist()
            inner = list(_inner(archive, entries, depth))
            manifest = _read(archive, "META-INF/manifest.xml")
    except Exception:  # whatever is wrong with it, nobody else can open it either
        return None
    return _Zip(
        names=(
            *(entry.filename for entry in entries),
            *(name for one in inner for name in one.names),
        ),
        unpacked=sum(entry.file_size for entry in entries)
        + sum(one.unpacked for one in inner),
        packed=max(1, sum(entry.compress_size for entry in entries)),
        is_encrypted=any(entry.flag_bits & 1 for entry in entries)
        or any(one.is_encrypted for one in inner),
        depth=max([depth, *(one.depth for one in inner)]),
        is_encrypted_document=b"encryption-data" in manifest,
    )


def _inner(
    archive: zipfile.ZipFile, entries: list[zipfile.ZipInfo], depth: int
) -> Iterator[_Zip]:
    """Yield the directories of archives inside: some, and down to one too deep."""
    nested = [entry for entry in entries if _extension(entry.filename) == "zip"]
    for entry in nested[: INNER_ARCHIVES if depth == 1 else 1]:
        if depth > NESTING_LIMIT or entry.flag_bits & 1:
            return
        found = _directory(_read(archive, entry.filename), depth + 1)
        if found is not None:
            yield found


def _read(archive: zipfile.ZipFile, name: str) -> bytes:
    if name not in archive.NameToInfo or archive.getinfo(name).flag_bits & 1:
        return b""
    with archive.open(name) as file:
        return file.read(INNER_LIMIT)


def _extension(name: str) -> str:
    return PurePosixPath(name.rstrip(". ").lower()).suffix.removeprefix(".")
