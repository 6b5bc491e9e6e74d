"""A browser agrees: the page draws in full, offline, without a complaint, in light, dark and print, at any width."""

import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from kvstress.report.html import page
from tests.report import runs

HERE = Path(__file__).parent
CHROMIUM = shutil.which("chromium")
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
HOSTILE = "<script>document.title='owned'</script><img src=http://127.0.0.1:9/x>\x1b[31m\u202e]]>"

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="no chromium on PATH: apt install chromium"),
]


@dataclass
class Opened:
    """A page in the browser, with what it said on its console and what it asked the network for."""

    page: Page
    complaints: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """One headless Chromium for the module."""
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield opened
        opened.close()


def show(browser: Browser, path: Path, markup: str, *, width: int = 1200, scheme: str = "light") -> Opened:
    path.write_text(markup, encoding="utf-8")
    tab = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme).new_page()  # type: ignore[arg-type]
    opened = Opened(tab)
    tab.on("console", lambda message: opened.complaints.append(message.text))
    tab.on("pageerror", lambda error: opened.complaints.append(str(error)))
    tab.on("request", lambda request: opened.asked.append(request.url))
    tab.goto(path.as_uri(), wait_until="load")
    return opened


def failing(words: str = runs.WORDS) -> str:
    return page(runs.manifest(), runs.failed(words=words), runs.events(17, fail_at=16, words=words, stream=True))


def test_the_page_loads_without_a_complaint_and_asks_for_nothing_but_itself(browser: Browser, tmp_path: Path) -> None:
    opened = show(browser, tmp_path / "report.html", failing())
    assert opened.complaints == []
    assert [url for url in opened.asked if not url.startswith("data:")] == [(tmp_path / "report.html").as_uri()]
    assert opened.page.locator("h1").inner_text() == "FAIL"


def test_the_verdict_and_the_first_failure_are_seen_without_scrolling(browser: Browser, tmp_path: Path) -> None:
    tab = show(browser, tmp_path / "report.html", failing()).page
    for shown in (tab.locator("h1"), tab.locator(".facts .failed .value"), tab.locator("blockquote")):
        box = shown.bounding_box()
        assert box is not None
        assert box["y"] + box["height"] <= 900


def test_charts_are_drawn_and_their_marks_lie_inside(browser: Browser, tmp_path: Path) -> None:
    tab = show(browser, tmp_path / "report.html", failing()).page
    assert tab.locator("svg.chart").count() == 3
    outside = tab.evaluate((HERE / "outside.js").read_text(encoding="utf-8"))
    assert outside == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_stands_out_from_its_ground(browser: Browser, tmp_path: Path, scheme: str) -> None:
    tab = show(browser, tmp_path / "report.html", failing(), scheme=scheme).page
    assert tab.evaluate((HERE / "contrasts.js").read_text(encoding="utf-8")) == []


@pytest.mark.parametrize("width", [360, 768, 1200, 1920])
def test_no_width_makes_the_page_itself_scroll_sideways(browser: Browser, tmp_path: Path, width: int) -> None:
    tab = show(browser, tmp_path / "report.html", failing(), width=width).page
    assert tab.evaluate("document.documentElement.scrollWidth") <= width


def test_server_text_does_not_run(browser: Browser, tmp_path: Path) -> None:
    opened = show(browser, tmp_path / "report.html", failing(HOSTILE))
    assert "owned" not in opened.page.title()
    assert opened.complaints == []
    assert len([url for url in opened.asked if not url.startswith("data:")]) == 1
    assert "<script>document.title='owned'</script>" in opened.page.locator("blockquote").inner_text()


def test_it_prints(browser: Browser, tmp_path: Path) -> None:
    opened = show(browser, tmp_path / "report.html", failing(), scheme="dark")
    printed = opened.page.pdf(format="A4")
    assert printed.startswith(b"%PDF")
    opened.page.emulate_media(media="print")
    assert opened.page.evaluate("getComputedStyle(document.body).color") != "rgb(236, 234, 230)"
