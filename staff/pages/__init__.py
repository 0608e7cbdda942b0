"""One file a kind of record: its list, its page, and what may be done to it."""
