"""The WSGI application that the web server runs."""

import os

from django.core.wsgi import get_wsgi_application

from pylota.api.environ import only_the_request
from pylota.checks import refuse_wrong_session

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "pylota.settings")
application = only_the_request(get_wsgi_application())
refuse_wrong_session()
