"""The two ways kvstress itself can be unable to go on; each carries one sentence for the person reading.

What a *server* does wrong is never an exception: it is recorded as an `Exchange` or a
`ServerEvent` and judged. These are for what only the person can mend.
"""


class KvstressError(Exception):
    """A sentence that names the thing and the way out; the command line prints it and exits."""

    exit_code: int = 125


class UsageError(KvstressError):
    """The call, a workload file or a data file is wrong: exit code 2."""

    exit_code = 2


class CannotJudgeError(KvstressError):
    """The call was right but no judgement is possible (the server never came up, the disk is full): exit code 125."""


class Interrupted(KvstressError):  # noqa: N818 - a word for what happened, not a fault
    """The person stopped it; what was seen before is stored."""

    exit_code = 130
