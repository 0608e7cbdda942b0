"""Users and groups, in the same dress as the other pages."""

from django.contrib import admin
from django.contrib.auth.admin import GroupAdmin, UserAdmin
from django.contrib.auth.models import Group, User
from unfold.admin import ModelAdmin
from unfold.forms import AdminPasswordChangeForm, UserChangeForm, UserCreationForm

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
