"""The embedded PostgreSQL: a server of our own when DATABASE_URL names none.

Standard library only: it runs before the settings are loaded.
"""

from pylota.embedded.errors import EmbeddedFailed
from pylota.embedded.server import Server, ensure

__all__ = ["EmbeddedFailed", "Server", "ensure"]
