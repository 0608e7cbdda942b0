"""Do what a worker does with rings, for all given messages at the same moment.

``python -m tests.support.rung START_FILE MESSAGE_ID …``: says ``waiting``, waits for
the file, then delivers each message in a thread of its own.
"""

import os
import sys
import threading
import time
from pathlib import Path


def main() -> None:
    """Wait, then deliver."""
    os.environ["DJANGO_SETTINGS_MODULE"] = "pylota.settings"
    import django

    django.setup()
    from django.db import connection

    from outbound.deliver import deliver

    start, *messages = sys.argv[1:]

    def run(message_id: str) -> None:
        while not Path(start).exists():
            time.sleep(0.001)
        deliver(message_id)
        connection.close()

    connection.ensure_connection()
    threads = [threading.Thread(target=run, args=(one,)) for one in messages]
    for thread in threads:
        thread.start()
    sys.stdout.write("waiting\n")
    sys.stdout.flush()
    for thread in threads:
        thread.join()


if __name__ == "__main__":
    main()
