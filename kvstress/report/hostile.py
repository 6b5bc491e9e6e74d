"""Text from a server is shown as what it is, never as what it does.

An error message can carry markup, terminal escapes, direction overrides or halves of a
surrogate pair, and the reader is deciding from it whether his engine is broken. Removing such
characters would hide what the server sent, and passing them on would let it write the report;
so each becomes its ASCII escape (`\\x1b`, `\\u202e`), which reads the same in a browser, an XML
parser and a terminal.
"""

import re

from kvstress.core.words import cap

PAGE_CAP = 4_000

# Control characters but tab and newline, then what reorders, hides or splits text: soft hyphen, the Arabic letter
# mark, zero-width and direction marks, line and paragraph separators, overrides and isolates, the byte order mark,
# interlinear anchors, surrogates, noncharacters and tag characters.
_ACTIVE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff\U000e0000-\U000e0fff]"
)


def _escape(match: re.Match[str]) -> str:
    return match[0].encode("unicode_escape").decode("ascii")


def tame(text: str, length: int = 2 * PAGE_CAP) -> str:
    """`text` cut to `length` characters with every active character spelt out; tabs and line ends stay."""
    # The cut comes first: escaping a megabyte in order to throw it away costs more than the rest of the page.
    return _ACTIVE.sub(_escape, cap(text, length).replace("\r\n", "\n"))


def line(text: str, length: int = 200) -> str:
    """`text` on one line of about `length` characters, tamed."""
    # Four times the length leaves room for runs of blanks; splitting a whole megabyte would not be bounded.
    short = " ".join(text[: 4 * length].split())
    more = "…" if len(short) > length or len(text) > 4 * length else ""
    return _ACTIVE.sub(_escape, short[:length]) + more


# Our own typography in plain letters; in a server's words an escape would be as right, but no easier to read.
_PLAIN = str.maketrans(
    {"“": '"', "”": '"', "‘": "'", "’": "'", "–": "-", "—": "-", "−": "-", "…": "...", "·": "|", "×": "x"}
)


def encodable(text: str, encoding: str) -> str:
    """`text` with what `encoding` cannot carry made plain or spelt as escapes, so that printing it cannot fail."""
    try:
        return text.encode(encoding).decode(encoding)
    except UnicodeEncodeError:
        return text.translate(_PLAIN).encode(encoding, "backslashreplace").decode(encoding)
