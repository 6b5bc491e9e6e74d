"""One page for a search: the answer, the curve, and a link to the run of every probe.

It is made from bisect.json alone, so it can be rendered anew, and it lies beside the run directories that it links.
"""

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from kvstress.core.units import show_duration
from kvstress.report import hostile
from kvstress.report.bisect_table import by_value
from kvstress.report.templates import template

_LOOK = {
    "boundary": "FAIL",
    "fails at every limit tried": "FAIL",
    "not monotone": "FAIL",
    "fails less often than asked": "FAIL",
    "no failure found": "PASS",
}


def page(found: Mapping[str, Any]) -> str:
    """The content of bisect.html."""
    return template("bisect.html.j2").render(
        found=found,
        look=_LOOK.get(found["status"], "INVALID"),
        chart=_chart(found),
        probes=[{**one, "href": f"probes/{quote(one['run'])}/report.html"} for one in by_value(found)],
        took=show_duration(sum(one["seconds"] for one in found["probes"])),
        steps=found["max_steps"],
    )


def _chart(found: Mapping[str, Any]) -> str | None:
    # Altair costs a second to import; only a page with a point in its chart pays for it.
    from kvstress.report import bisect_chart, charts

    drawn = bisect_chart.curve(found)
    title = f"{found['knob']} against pool fill and first failure. {found['sentence']}"
    return None if drawn is None else charts.svg(drawn, "curve", hostile.line(title, 600))
