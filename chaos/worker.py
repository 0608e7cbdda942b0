"""A worker process of the run: Celery's own command, after the mutant if there is one.

``python -m chaos.worker worker …``: Celery's arguments follow.
"""

import sys


def main() -> None:
    """Break what is to be broken, then be Celery."""
    import django

    from pylota.celery import app

    django.setup()
    from chaos.mutants import mutate

    mutate()
    app.start(sys.argv[1:])


if __name__ == "__main__":
    main()
