"""A command line with `{placeholders}` becomes an argument vector, and no shell ever sees it.

The words are split before the values go in, so that a value with blanks or quotes stays one
argument. Braces that are not a name in braces are left alone: engines take JSON on their
command lines.
"""

import re
import shlex
from collections.abc import Mapping

from kvstress.core.errors import UsageError

_PLACEHOLDER = re.compile(r"\{\{([A-Za-z]\w*)\}\}|\{([A-Za-z]\w*)\}")

_PLAIN = re.compile(r"[\w@%+=:,./{}-]+", re.ASCII)


def placeholders(text: str) -> frozenset[str]:
    """The names in `text` that want a value; `{{name}}` stands for a literal `{name}`."""
    return frozenset(match[2] for match in _PLACEHOLDER.finditer(text) if match[2])


def split(command: str) -> list[str]:
    """`command` in words as a shell would split it; UsageError when it is empty or a quotation is left open."""
    try:
        words = shlex.split(command)
    except ValueError as problem:
        raise UsageError(f"cannot read the command {command!r}: {str(problem).lower()}") from problem
    if not words or "\0" in command:
        raise UsageError(f"cannot read the command {command!r}: it names no program")
    return words


def fill(
    command: str, env: Mapping[str, str], values: Mapping[str, str], optional: frozenset[str] = frozenset()
) -> tuple[list[str], dict[str, str]]:
    """The argument vector and environment with `values` in their places.

    UsageError when a placeholder has no value, or a value that is not `optional` no place in either.
    """
    words = split(command)
    wanted = placeholders(command).union(*map(placeholders, env.values()))
    if missing := sorted(wanted - values.keys()):
        given = ", ".join(sorted(values)) or "none"
        raise UsageError(f"the command has a placeholder {{{missing[0]}}} but no value for it (values given: {given})")
    if unused := sorted(values.keys() - wanted - optional):
        raise UsageError(
            f"the command never uses {{{unused[0]}}}: write it where the server takes that value, "
            f"as in --{unused[0].replace('_', '-')} {{{unused[0]}}}"
        )
    return [_filled(word, values) for word in words], {name: _filled(value, values) for name, value in env.items()}


def partly(command: str, values: Mapping[str, str]) -> str:
    """`command` with `values` in their places and every other placeholder left for later, as one line again."""
    return " ".join(quoted(filled(word, values)) for word in split(command))


def filled(text: str, values: Mapping[str, str]) -> str:
    """One word with `values` in their places and every other placeholder left."""
    return _PLACEHOLDER.sub(lambda match: values.get(match[2] or "", match[0]), text)


def quoted(word: str) -> str:
    """Like shlex.quote, which would also quote braces and make every `{port}` hard to read."""
    return word if _PLAIN.fullmatch(word) else shlex.quote(word)


def _filled(text: str, values: Mapping[str, str]) -> str:
    return _PLACEHOLDER.sub(lambda match: values[match[2]] if match[2] else f"{{{match[1]}}}", text)
