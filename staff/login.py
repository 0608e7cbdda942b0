"""Logging in: a password, and a code from those who have set a second factor up.

Wrong passwords are counted by ``django-axes`` (by account and client together), wrong
codes by the device itself; both say when to try again.
"""

import re
from typing import Any, Final

from axes.models import AccessAttempt
from django import forms
from django.conf import settings
from django.db.models import Sum
from django.http import HttpRequest
from django.utils import timezone
from django_otp import devices_for_user, user_has_device
from django_otp.forms import OTPAuthenticationFormMixin
from django_otp.plugins.otp_static.models import StaticDevice
from django_otp.plugins.otp_totp.models import TOTPDevice
from unfold.forms import AuthenticationForm
from unfold.widgets import BASE_INPUT_CLASSES

SIX_DIGITS: Final = re.compile(r"[0-9]{6}")
FAILURES_OF_A_CLIENT: Final = 50
"""Wrong passwords that one client may enter, for all accounts, in a cool-off's time."""


class LoginForm(OTPAuthenticationFormMixin, AuthenticationForm):  # type: ignore[misc]
    """Name, password, and the code of a second factor where the account has one.

    Six digits are the code of an authenticator, anything else a recovery code, which
    counts once.
    """

    otp_token = forms.CharField(
        required=False,
        label="Code",
        help_text="Only if your account has a second factor.",
        widget=forms.TextInput(
            attrs={
                "autocomplete": "one-time-code",
                "class": " ".join(BASE_INPUT_CLASSES),
            }
        ),
    )
    otp_error_messages = {
        **OTPAuthenticationFormMixin.otp_error_messages,
        "token_required": "This account has a second factor: enter its code too.",
        "invalid_token": "Wrong code, or one that was used: wait for the next.",
        "device_required": "This account has no such code.",
    }

    def clean(self) -> dict[str, Any]:
        """Check the password, then the code of an account that has a device."""
        self._refuse_guessing()
        cleaned: dict[str, Any] = super().clean()
        user = self.get_user()
        if user is not None and user_has_device(user):
            self.clean_otp(user)
        return cleaned

    def _refuse_guessing(self) -> None:
        """Stop a client that tries one account after another."""
        failed = AccessAttempt.objects.filter(
            ip_address=client_address(self.request),
            attempt_time__gte=timezone.now() - settings.AXES_COOLOFF_TIME,
        ).aggregate(total=Sum("failures_since_start"))["total"]
        if (failed or 0) >= FAILURES_OF_A_CLIENT:
            raise forms.ValidationError(
                "Too many wrong passwords came from here. Try again in 15 minutes."
            )

    def _chosen_device(self, user: Any) -> Any:
        kind = (
            TOTPDevice
            if SIX_DIGITS.fullmatch(self.cleaned_data.get("otp_token", ""))
            else StaticDevice
        )
        own = (d for d in devices_for_user(user) if isinstance(d, kind))
        return next(own, None)

    def _update_form(self, user: Any) -> None:
        """Offer no choice of devices: the code says which one it is of."""


def client_address(request: HttpRequest) -> str:
    """Return where a request comes from: in production the proxy says so."""
    by_proxy = settings.SECURE_PROXY_SSL_HEADER and request.META.get("HTTP_X_REAL_IP")
    return str(by_proxy or request.META.get("REMOTE_ADDR", ""))
