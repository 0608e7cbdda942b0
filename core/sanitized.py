"""What sanitising gives, apart from the libraries that do it."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Sanitized:
    """HTML that is safe to show; whether it hid text, and whether some was left out."""

    html: str
    has_hidden_text: bool
    is_truncated: bool = False
