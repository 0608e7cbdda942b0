"""An independent reader of HTML, to look at what our own code let through."""

from html.parser import HTMLParser


class Reader(HTMLParser):
    """The tags with their attributes, the text, and whatever else stands there."""

    def __init__(self, html: str) -> None:
        """Read a text to its end."""
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.other: list[str] = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Keep a tag and its attributes."""
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        """Keep text."""
        self.text += data

    def handle_comment(self, data: str) -> None:
        """Keep a comment."""
        self.other.append(data)

    def handle_decl(self, decl: str) -> None:
        """Keep a declaration."""
        self.other.append(decl)

    def handle_pi(self, data: str) -> None:
        """Keep a processing instruction."""
        self.other.append(data)
