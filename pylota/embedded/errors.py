"""What the launcher says when it cannot go on."""


class EmbeddedFailed(Exception):
    """The embedded PostgreSQL cannot serve: one line, with one next step."""
