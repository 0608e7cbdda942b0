"""Refusals of this app."""

from core.errors import PylotaError


class NotUncertain(PylotaError):
    """No recipient of the message is uncertain, so there is nothing to settle."""

    code = "not_uncertain"
    status = 409
    fix = "Read the message again; it has been settled meanwhile."
