"""A second factor for one's own account: an authenticator, and codes for its loss.

Switching it on shows a key once and takes a first code, so that nobody is locked out
by a scan that went wrong; switching it off takes a code too.
"""

from base64 import b32encode
from typing import Any, Final

import django_otp
import segno
from django import forms
from django.contrib import admin, messages
from django.db import transaction
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.urls import reverse
from django.utils.safestring import mark_safe
from django_otp.plugins.otp_static.models import StaticDevice, StaticToken
from django_otp.plugins.otp_totp.models import TOTPDevice
from unfold.widgets import UnfoldAdminTextInputWidget

from mailboxes.services import audit

RECOVERY_CODES: Final = 10


class CodeForm(forms.Form):
    """The six digits that the authenticator shows now."""

    code = forms.RegexField(
        regex=r"^[0-9]{6}$",
        label="Code",
        help_text="The six digits that your authenticator shows now.",
        error_messages={"invalid": "A code has six digits."},
        widget=UnfoldAdminTextInputWidget(
            attrs={"autocomplete": "one-time-code", "inputmode": "numeric"}
        ),
    )


def second_factor(request: HttpRequest) -> HttpResponse:
    """Show whether there is one, and switch it on or off."""
    user: Any = request.user
    active = TOTPDevice.objects.filter(user=user, confirmed=True).first()
    device = (
        active
        or TOTPDevice.objects.get_or_create(
            user=user, confirmed=False, defaults={"name": "authenticator"}
        )[0]
    )
    form = CodeForm(request.POST or None)
    if request.method == "POST" and form.is_valid():
        if _is_right(device, form.cleaned_data["code"]):
            return _off(request, device) if active else _on(request, device)
        form.add_error("code", "The code is wrong, or was used already.")
    context = {
        **admin.site.each_context(request),
        "title": "Second factor",
        "is_on": active is not None,
        "codes_left": StaticToken.objects.filter(device__user=user).count(),
        "form": form,
    }
    if active is None:
        context |= {"qr": _qr(device), "key": b32encode(device.bin_key).decode()}
    status = 400 if form.errors else 200
    answer = render(request, "staff/second_factor.html", context, status=status)
    answer["Cache-Control"] = "no-store"
    return answer


def _is_right(device: TOTPDevice, code: str) -> bool:
    """Compare a code, on the device's row: one that fails too often must wait."""
    with transaction.atomic():
        mine = TOTPDevice.objects.select_for_update(no_key=True).get(pk=device.pk)
        return mine.verify_is_allowed()[0] and bool(mine.verify_token(code))


@transaction.atomic
def _on(request: HttpRequest, device: TOTPDevice) -> HttpResponse:
    TOTPDevice.objects.filter(pk=device.pk).update(confirmed=True)
    StaticDevice.objects.filter(user=request.user).delete()
    spare = StaticDevice.objects.create(user=request.user, name="recovery codes")
    codes = [StaticToken.random_token() for _ in range(RECOVERY_CODES)]
    StaticToken.objects.bulk_create(
        StaticToken(device=spare, token=code) for code in codes
    )
    _note(request, "staff.second_factor_on")
    device.refresh_from_db()
    django_otp.login(request, device)
    context = {
        **admin.site.each_context(request),
        "title": "Your second factor is on",
        "of": "Ten codes for the day when the authenticator is lost. Each counts once.",
        "secret": " ".join(codes),
        "back": reverse("admin:index"),
    }
    answer = render(request, "staff/secret.html", context)
    answer["Cache-Control"] = "no-store"
    return answer


@transaction.atomic
def _off(request: HttpRequest, device: TOTPDevice) -> HttpResponse:
    device.delete()
    StaticDevice.objects.filter(user=request.user).delete()
    _note(request, "staff.second_factor_off")
    messages.success(request, "Your account has no second factor any more.")
    return HttpResponseRedirect(reverse("second-factor"))


def _note(request: HttpRequest, action: str) -> None:
    audit(
        action,
        tenant_id=None,
        target_type="user",
        target_id=str(request.user.pk),
        actor_user_id=str(request.user.pk),
    )


def _qr(device: TOTPDevice) -> str:
    """Return the code to scan as SVG; nothing in it comes from a request."""
    drawn = segno.make(device.config_url, micro=False)
    return mark_safe(  # noqa: S308  the library's own drawing
        drawn.svg_inline(scale=5, border=4, light="#fff", title="Code to scan")
    )
