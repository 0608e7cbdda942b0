#!/usr/bin/env python
"""Pylota's operator commands: ``python manage.py help`` lists them."""

import os
import sys


def main() -> None:
    """Run one management command, with the embedded database if there is no other."""
    from pylota.embedded.defaults import prepare

    prepare(sys.argv)
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "pylota.settings")
    from django.core.management import execute_from_command_line

    execute_from_command_line(sys.argv)


if __name__ == "__main__":
    main()
