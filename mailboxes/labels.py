"""Pure: the words that mail is filed under (REST contract 2.8, and its section 7)."""

import re
from typing import Final

LABEL: Final = re.compile(r"[a-z0-9][a-z0-9_:-]{0,63}")
LABELS_LIMIT: Final = 64
"""Labels of one message."""
