"""Members of the staff, each with a role, and their browsers."""

from django.contrib.auth.models import Group, User
from django.test import Client

from staff.roles import ensure_roles


def member(role: str, name: str = "") -> User:
    """Return a new account that has this role."""
    ensure_roles()  # a test that commits leaves no row behind, no role either
    user = User.objects.create_user(name or f"{role}-ada")
    user.is_staff = True
    user.save()
    user.groups.set([Group.objects.get(name=role)])
    return user


def browser(role: str) -> Client:
    """Return the browser of somebody who has logged in with this role."""
    client = Client()
    client.force_login(
        member(role), backend="django.contrib.auth.backends.ModelBackend"
    )
    return client
