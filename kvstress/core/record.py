"""How much of a run is kept, as a word that the command line can offer without loading what writes it."""

from enum import StrEnum


class Record(StrEnum):
    """FULL: request bodies too. TEXT: the answers. FACTS: neither; errors in the server's words are always kept."""

    FULL = "full"
    TEXT = "text"
    FACTS = "facts"
