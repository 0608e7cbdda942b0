"""Users and groups, in the same dress as the other pages."""

from axes.models import AccessAttempt, AccessFailureLog, AccessLog
from django.contrib import admin
from django.contrib.auth.admin import GroupAdmin, UserAdmin
from django.contrib.auth.models import Group, User
from django.db.models import Model
from django.http import HttpRequest
from django_otp.plugins.otp_static.models import StaticDevice
from django_otp.plugins.otp_totp.models import TOTPDevice
from unfold.admin import ModelAdmin
from unfold.forms import AdminPasswordChangeForm, UserChangeForm, UserCreationForm

from core.admin import ReadOnlyAdmin

admin.site.unregister(User)
admin.site.unregister(Group)


@admin.register(User)
class OperatorAdmin(UserAdmin, ModelAdmin):  # type: ignore[misc,type-arg]  # untyped
    """Who may log in to the admin, and with which permissions."""

    form = UserChangeForm
    add_form = UserCreationForm
    change_password_form = AdminPasswordChangeForm


@admin.register(Group)
class RoleAdmin(GroupAdmin, ModelAdmin):  # type: ignore[misc]  # untyped
    """Permissions that several people share."""


for _model in (TOTPDevice, StaticDevice, AccessAttempt, AccessLog, AccessFailureLog):
    admin.site.unregister(_model)


class _Deletable(ReadOnlyAdmin):
    """Records that are shown, and deleted by whoever edits accounts."""

    def has_delete_permission(
        self, request: HttpRequest, obj: Model | None = None
    ) -> bool:
        """Whoever edits accounts."""
        return request.user.has_perm("auth.change_user")


@admin.register(TOTPDevice)
class AuthenticatorAdmin(_Deletable):
    """Second factors; deleting one lets its owner log in with the password alone.

    For an authenticator that is lost with its recovery codes. Nothing of its key shows.
    """

    list_display = ("user", "name", "confirmed", "last_used_at")
    ordering = ("user__username", "id")
    exact_search = ("user__username",)
    fields = ("user", "name", "confirmed", "created_at", "last_used_at")


@admin.register(AccessAttempt)
class AttemptAdmin(_Deletable):
    """Wrong passwords by account and client; deleting one ends its lock at once."""

    list_display = ("username", "ip_address", "failures_since_start", "attempt_time")
    ordering = ("-attempt_time", "-id")
    exact_search = ("username", "ip_address")
    fields = ("username", "ip_address", "failures_since_start", "attempt_time")
