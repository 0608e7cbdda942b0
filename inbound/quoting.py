"""What somebody wrote, without what they quote. Pure (mailboxes, section 4.8)."""

import re
from collections.abc import Sequence
from typing import Final

SIGNATURE_LINES: Final = 15
"""Lines at the end in which a signature is looked for."""

_WROTE: Final = re.compile(
    r"(?:On|Am|Le|El|Il|Op)\b.{4,300}\b"
    r"(?:wrote|schrieb.{0,99}|écrit|escribió|scritto|schreef.{0,99})\s*:"
)
_RULE: Final = re.compile(
    r"[-_*\s]{2,}(?:Original Message|Original-Nachricht|Ursprüngliche Nachricht"
    r"|Message d'origine|Forwarded message|Weitergeleitete Nachricht)[-_*\s]{2,}",
    re.IGNORECASE,
)
_FROM: Final = re.compile(r"[*_]?(?:From|Von|De|Da|Van)[*_]?\s?:[*_]?\s\S")
_BESIDE: Final = re.compile(
    r"[*_]?(?:Sent|Date|To|Subject|Gesendet|Datum|An|Betreff|Envoyé|À|Objet)[*_]?\s?:"
)


def extracted_text(text: str) -> str:
    """Return a text up to its first quotation, and without lines that quote.

    A signature near the end goes too. Where nothing would be left, the whole stays.
    """
    lines = text.split("\n")
    own = [line for line in lines[: _quoted_from(lines)] if not line.startswith(">")]
    while own and not own[-1].strip():
        own.pop()
    for place in range(max(0, len(own) - SIGNATURE_LINES), len(own)):
        if own[place] in ("-- ", "--"):
            del own[place:]
            break
    return "\n".join(own).strip("\n").rstrip() or text


def _quoted_from(lines: Sequence[str]) -> int:
    """Return the place of the line that begins a quotation, or the end."""
    return next(
        (place for place in range(len(lines)) if _begins_quote(lines, place)),
        len(lines),
    )


def _begins_quote(lines: Sequence[str], place: int) -> bool:
    line = lines[place].strip()[:400]
    if not line:
        return False
    if line[0] in "OALEI" and _wrote(lines[place : place + 3]):
        return True
    if line[0] in "-_*" and _RULE.fullmatch(line):
        return True
    if not _FROM.match(line):
        return False
    beside = lines[place + 1 : place + 5]
    return sum(1 for other in beside if _BESIDE.match(other.strip())) >= 2


def _wrote(lines: Sequence[str]) -> bool:
    """Tell whether lines begin with who wrote when; it may be broken in three."""
    joined = ""
    for line in lines:
        if not line.strip():
            return False
        joined = f"{joined} {line.strip()[:400]}".strip()
        if _WROTE.fullmatch(joined):
            return True
    return False
