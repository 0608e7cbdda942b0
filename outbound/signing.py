"""What the keyring signs in a mail: the Reply-To that finds its thread again."""

from collections.abc import Callable
from typing import Final, Protocol

from domains.statuses import ReplyToken
from mailboxes.keyring_services import current_key
from mailboxes.statuses import KeyPurpose
from mailboxes.thread_tokens import mint_token, with_token

Signer = Callable[[KeyPurpose], tuple[str, bytes]]
"""Gives the name and the secret of the key that signs for a purpose."""

NO_KEY: Final = ("0", b"")


class Answerable(Protocol):
    """An address that mail leaves from, and how its domain brings answers back."""

    @property
    def address(self) -> str: ...

    @property
    def reply_token(self) -> ReplyToken: ...


def ring_key(purpose: KeyPurpose) -> tuple[str, bytes]:
    """Return the key of the ring that signs; the first use of all makes it."""
    key = current_key(purpose)
    return key.kid, key.secret


def no_key(purpose: KeyPurpose) -> tuple[str, bytes]:
    """Return a key that signs nothing: a dry run writes none, and needs the length."""
    return NO_KEY


def reply_address(
    sender: Answerable, seq: int, *, identity_id: str, sign: Signer
) -> str | None:
    """Return the address that brings answers back to the thread; None without one."""
    if sender.reply_token != ReplyToken.SUBADDRESS:
        return None
    kid, key = sign(KeyPurpose.THREAD)
    return with_token(
        sender.address, mint_token(seq, identity_id=identity_id, kid=kid, key=key)
    )
