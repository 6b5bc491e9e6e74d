"""The templates of all pages, in one environment, so that none of them can forget to escape.

A name that a template mistypes is an error, not an empty place in a page that somebody trusts.
"""

from functools import cache
from importlib.resources import files

import jinja2

from kvstress.report import hostile


@cache
def template(name: str) -> jinja2.Template:
    """The template of that name. Its values are escaped; what came from outside passes through `tame` or `line`."""
    return _environment().get_template(name)


@cache
def _environment() -> jinja2.Environment:
    here = files("kvstress.report")
    environment = jinja2.Environment(
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        loader=jinja2.FunctionLoader(lambda name: here.joinpath(name).read_text(encoding="utf-8")),
    )
    environment.filters["tame"] = hostile.tame
    environment.filters["line"] = hostile.line
    return environment
