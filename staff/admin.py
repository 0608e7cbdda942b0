"""The pages of the admin that look across the apps; Django finds them here."""

from staff.message_page import admin as message_page

__all__ = ["message_page"]
