"""Which user names an identity may have (pure; mailboxes, section 2.3)."""

import re
import unicodedata
from typing import ClassVar, Final

from core.errors import PylotaError

RESERVED: Final = frozenset(
    """
    postmaster abuse noreply no-reply donotreply do-not-reply mailer-daemon mailerdaemon
    mail-daemon bounce bounces root admin administrator sysadmin system daemon nobody
    null devnull listserv majordomo unsubscribe dmarc journal
    """.split()  # noqa: SIM905  a word a line would hide the file's rules
)
RESERVED_WITHOUT_SUFFIX: Final = frozenset(
    """
    info marketing sales support noc security hostmaster usenet news webmaster www uucp
    ftp
    """.split()  # noqa: SIM905  as above
)
_FORM: Final = re.compile(r"[a-z0-9][a-z0-9._-]{0,23}")
_RESERVED_FORM: Final = re.compile(r"(owner-|pm-).*|.*-request")
_LOOKS_LIKE: Final = str.maketrans({"m": "rn", "0": "o", "1": "l", "|": "l"})
"""The ASCII part of the prototypes of UTS #39; other letters are refused anyway."""
LOCAL_PART_LIMIT: Final = 40


class _NameRefused(PylotaError):
    status: ClassVar[int] = 400
    fix = "Use a shorter, plain, unreserved name."


class AddressReserved(_NameRefused):
    """The name is one that mail systems or this service keep for themselves."""

    code = "address_reserved"


class UsernameInvalid(_NameRefused):
    """The name has not the form of a user name."""

    code = "address_invalid"


class UsernameUnsupported(_NameRefused):
    """The name holds letters beyond ASCII."""

    code = "address_unsupported"


class LocalPartTooLong(_NameRefused):
    """The name and the tenant's suffix together are over 40 characters."""

    code = "local_part_too_long"


def fold(name: str) -> str:
    """Return the form in which names that look alike are equal."""
    folded = unicodedata.normalize("NFD", name.casefold())
    for _ in range(3):
        again = unicodedata.normalize("NFD", folded.translate(_LOOKS_LIKE)).lower()
        if again == folded:
            break
        folded = again
    return folded


def check_username(name: str, *, suffix: str) -> str:
    """Return the lower-case user name; raise the first reason to refuse it.

    ``suffix`` is the tenant's address suffix, which makes the local part.
    """
    lowered = name.lower()
    reserved = RESERVED if suffix else RESERVED | RESERVED_WITHOUT_SUFFIX
    if fold(name) in {fold(word) for word in reserved}:
        raise AddressReserved(f"{name} is reserved, or looks like a reserved name")
    if not name.isascii():
        raise UsernameUnsupported("a user name is made of ASCII letters and digits")
    if not _FORM.fullmatch(lowered) or ".." in lowered or lowered.endswith("."):
        raise UsernameInvalid(
            "a user name is 1 to 24 of a-z 0-9 . _ - and begins with a letter or "
            "digit, without two dots in a row or one at the end"
        )
    if _RESERVED_FORM.fullmatch(lowered):
        raise AddressReserved(f"{name} is kept for the service's own mail")
    if len(lowered + suffix) > LOCAL_PART_LIMIT:
        raise LocalPartTooLong(f"{lowered}{suffix} is over {LOCAL_PART_LIMIT} long")
    return lowered
