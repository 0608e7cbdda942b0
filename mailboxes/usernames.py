"""Which names an identity and its addresses may have (pure; mailboxes, section 2.3)."""

import re
import unicodedata
from collections.abc import Collection
from typing import ClassVar, Final

from core.errors import FieldError, PylotaError, listed

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
_FORM: Final = re.compile(r"[a-z0-9][a-z0-9._-]*")
_RESERVED_FORM: Final = re.compile(r"(owner-|pm-).*|.*-request")
_LOOKS_LIKE: Final = str.maketrans(
    {"m": "rn", "0": "o", "1": "l", "|": "l"}
    | dict(zip("аеорсухѕіјԁһӏԛԝѵкь", "aeopcyxsijdhlqwvkb", strict=True))
    | dict(zip("αορνυιγκσıɑɡȷℓ", "aopvuiykoiagjl", strict=True))
)
"""Prototypes of UTS #39 that are ASCII; letters beyond ASCII are refused anyway."""
_IGNORABLE: Final = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f"
    "\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufff8"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
"""Default_Ignorable_Code_Point of Unicode: characters that show nothing."""
USERNAME_LIMIT: Final = 24
LOCAL_PART_LIMIT: Final = 40


class _NameRefused(PylotaError):
    status: ClassVar[int] = 400
    fix = "Use a shorter, plain, unreserved name."

    def __init__(self, detail: str, *, path: str) -> None:
        errors = listed([FieldError(path, detail)])
        super().__init__(detail, details={"errors": errors})


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
        shown = _IGNORABLE.sub("", folded)
        plain = "".join(map(_prototype, shown)).translate(_LOOKS_LIKE)
        again = unicodedata.normalize("NFD", plain).lower()
        if again == folded:
            break
        folded = again
    return folded


def _prototype(character: str) -> str:
    """Return the ASCII that a letter is a mere variant of: full-width, bold, italic."""
    plain = unicodedata.normalize("NFKD", character)
    return plain if plain.isascii() else character


def check_username(name: str, *, suffix: str) -> str:
    """Return the lower-case user name; raise the first reason to refuse it.

    ``suffix`` is the tenant's address suffix, which makes the local part.
    """
    reserved = RESERVED if suffix else RESERVED | RESERVED_WITHOUT_SUFFIX
    lowered = _checked(name, reserved, limit=USERNAME_LIMIT, path="username")
    if len(lowered + suffix) > LOCAL_PART_LIMIT:
        raise LocalPartTooLong(
            f"{lowered}{suffix} is over {LOCAL_PART_LIMIT} long", path="username"
        )
    return lowered


def check_local_part(name: str) -> str:
    """Return the lower-case local part of an address on a tenant's own domain.

    Raises the first reason to refuse it.
    """
    return _checked(name, RESERVED, limit=LOCAL_PART_LIMIT, path="local_part")


def _checked(name: str, reserved: Collection[str], *, limit: int, path: str) -> str:
    lowered = name.lower()
    if fold(name) in {fold(word) for word in reserved}:
        raise AddressReserved(
            f"{name} is reserved, or looks like a reserved name", path=path
        )
    if not name.isascii():
        raise _beyond_ascii(name, path)
    is_plain = _FORM.fullmatch(lowered) and ".." not in lowered
    if not is_plain or lowered.endswith(".") or len(lowered) > limit:
        raise UsernameInvalid(
            f"a name is 1 to {limit} of a-z 0-9 . _ - and begins with a letter or "
            "digit, without two dots in a row or one at the end",
            path=path,
        )
    if _RESERVED_FORM.fullmatch(lowered):
        raise AddressReserved(f"{name} is kept for the service's own mail", path=path)
    return lowered


def _beyond_ascii(name: str, path: str) -> PylotaError:
    """Return why a name beyond ASCII is refused: it misleads, or is not supported."""
    letters = [letter for letter in name if letter.isalpha()]
    scripts = {unicodedata.name(letter, "").split(" ")[0] for letter in letters}
    is_rtl = any(
        unicodedata.bidirectional(c) in ("R", "AL", "RLO", "RLE", "RLI") for c in name
    )
    if len(scripts) > 1 or is_rtl:
        message = "this name mixes scripts, or reads from the right"
        return AddressReserved(message, path=path)
    return UsernameUnsupported("a name is made of ASCII letters and digits", path=path)
