"""Reading a page back as a browser would, with the standard library's parser."""

from dataclasses import dataclass, field
from html.parser import HTMLParser

# Elements that a browser sets apart, so that their texts do not run together.
APART = {"td", "th", "dt", "dd", "p", "h1", "h2", "h3", "pre", "tr"}
VOID = {"meta", "link", "br", "hr", "img", "input"}


@dataclass
class Read:
    """What a page holds: its elements with attributes, its text by enclosing element, and tags never closed."""

    elements: list[tuple[str, dict[str, str | None]]] = field(default_factory=list)
    text: str = ""
    unclosed: list[str] = field(default_factory=list)
    mismatched: list[str] = field(default_factory=list)

    def tags(self, name: str) -> list[dict[str, str | None]]:
        """Attributes of each element of that name."""
        return [attributes for tag, attributes in self.elements if tag == name]


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.read = Read()
        self.stack: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.read.elements.append((tag, dict(attrs)))
        self.read.text += " " if tag in APART else ""
        if tag not in VOID:
            self.stack.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.read.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        if self.stack and self.stack[-1] == tag:
            self.stack.pop()
        else:
            self.read.mismatched.append(tag)

    def handle_data(self, data: str) -> None:
        if "style" not in self.stack:
            self.read.text += data


def read(page: str) -> Read:
    """`page`, parsed."""
    reader = _Reader()
    reader.feed(page)
    reader.close()
    reader.read.unclosed = reader.stack
    reader.read.text = " ".join(reader.read.text.split())
    return reader.read
