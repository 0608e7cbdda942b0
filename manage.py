#!/usr/bin/env python
"""Pylota's operator commands: ``python manage.py help`` lists them."""

import os
import sys


def main() -> None:
    """Run one management command, with the embedded database if there is no other.

    What the operator has to set right ends it with one line: a setting, the database.
    """
    from pylota.embedded.defaults import hint, prepare

    prepare(sys.argv)
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "pylota.settings")
    from django.core.exceptions import ImproperlyConfigured
    from django.core.management import execute_from_command_line
    from django.db import OperationalError

    try:
        execute_from_command_line(sys.argv)
    except ImproperlyConfigured as error:
        sys.exit(f"{error}{hint()}")
    except OperationalError as error:
        first = next(iter(str(error).splitlines()), "no answer")
        sys.exit(f"The database of DATABASE_URL fails: {first}")


if __name__ == "__main__":
    main()
