"""The admin's own app: its roles are made after its migrations."""

from django.apps import AppConfig
from django.db.models.signals import post_migrate


class StaffConfig(AppConfig):
    """What people do in the admin, beside looking at records."""

    name = "staff"

    def ready(self) -> None:
        """Have the roles made once the permissions are there."""
        from staff.roles import ensure_roles

        post_migrate.connect(ensure_roles, sender=self, dispatch_uid="staff.roles")
