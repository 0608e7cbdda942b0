"""The WSGI application with the points of ``PM_TEST_PLANTED`` planted."""

from pylota.wsgi import application
from tests.support.planted import plant

plant()

__all__ = ["application"]
