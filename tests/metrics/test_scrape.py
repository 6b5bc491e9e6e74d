"""The Scraper against pages given as values: what it asks for, remembers and never raises."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from itertools import count
from pathlib import Path

import pytest

from kvstress.core.sample import Sample
from kvstress.metrics.parse import Page
from kvstress.metrics.scrape import Scraper

Answer = tuple[int | None, str, str | None]
PAGES = Path(__file__).parent.parent / "data" / "metrics"
ABSENT: Answer = (404, "Not Found", None)


class Server:
    """Answers by path; `asked` lists the paths in order."""

    def __init__(self, answers: Mapping[str, Answer]) -> None:
        self.answers = dict(answers)
        self.asked: list[str] = []

    async def fetch(self, path: str) -> Answer:
        self.asked.append(path)
        return self.answers.get(path, ABSENT)


def ticking() -> Callable[[], float]:
    ticks = count()
    return lambda: float(next(ticks))


def scrape(scraper: Scraper, why: str = "step", step: int | None = 0) -> Sample | None:
    return asyncio.run(scraper.scrape(why, step))


def flare(free: int, cached: int, more: str = "") -> Answer:
    return 200, f"flare_free_kv_tokens {free}\nflare_cached_kv_tokens {cached}\n{more}", None


def scraped(answer: Answer) -> Sample:
    sample = scrape(Scraper(Server({"/metrics": answer}).fetch, ticking()))
    assert sample is not None
    return sample


def test_a_server_without_a_metrics_page_is_asked_once() -> None:
    server = Server({})
    scraper = Scraper(server.fetch, ticking())
    assert scrape(scraper) is None
    assert scrape(scraper) is None
    assert server.asked == ["/metrics", "/prometheus/metrics"]


def test_llamacpp_without_its_flag_has_no_page() -> None:
    server = Server({"/metrics": (501, '{"error":{"message":"This server does not support metrics endpoint."}}', None)})
    assert scrape(Scraper(server.fetch, ticking())) is None


@pytest.mark.parametrize("first", [ABSENT, (200, '[{"iter": 1}]', None)], ids=["404", "json"])
def test_the_page_may_lie_elsewhere(first: Answer) -> None:
    page = (PAGES / "tensorrt_llm.txt").read_text()
    server = Server({"/metrics": first, "/prometheus/metrics": (200, page, None)})
    scraper = Scraper(server.fetch, ticking())
    for _ in range(2):
        sample = scrape(scraper)
        assert sample is not None
        assert sample.dialect == "tensorrt-llm"
    assert server.asked == ["/metrics", "/prometheus/metrics", "/prometheus/metrics"]


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        ((None, "", "connection refused"), "/metrics could not be read: connection refused"),
        ((500, "oh\n no", None), "/metrics answered 500: oh no"),
        ((401, "", None), "/metrics answered 401: "),
        ((200, "<html>", None), "the page is not Prometheus text: it is HTML: '<html>'"),
    ],
)
def test_what_cannot_be_read_is_a_sample_with_a_problem(answer: Answer, problem: str) -> None:
    sample = scraped(answer)
    assert (sample.problem, sample.dialect, sample.raw) == (problem, None, {})


def test_an_unreachable_server_is_not_asked_twice_per_scrape_and_is_asked_again() -> None:
    server = Server({"/metrics": (None, "", "timed out")})
    scraper = Scraper(server.fetch, ticking())
    scrape(scraper)
    server.answers["/metrics"] = flare(10, 0)
    sample = scrape(scraper)
    assert sample is not None
    assert (sample.kv_free, sample.problem) == (10, None)
    assert server.asked == ["/metrics", "/metrics"]


def test_a_page_that_vanishes_is_evidence_not_absence() -> None:
    server = Server({"/metrics": flare(10, 0)})
    scraper = Scraper(server.fetch, ticking())
    scrape(scraper)
    server.answers["/metrics"] = ABSENT
    sample = scrape(scraper)
    assert sample is not None
    assert sample.problem == "/metrics is gone: it was there before"


def test_a_sample_carries_when_why_and_which_step() -> None:
    sample = scrape(Scraper(Server({"/metrics": flare(10, 0)}).fetch, ticking()), "step", 7)
    assert sample is not None
    assert (sample.at, sample.took, sample.why, sample.step) == (0.0, 1.0, "step", 7)


def test_flare_is_full_when_no_token_is_free() -> None:
    server = Server({"/metrics": flare(481_280, 0)})
    scraper = Scraper(server.fetch, ticking())
    levels = []
    for free, cached in ((481_280, 0), (120_320, 300_000), (0, 400_000)):
        server.answers["/metrics"] = flare(free, cached)
        sample = scrape(scraper)
        assert sample is not None
        levels.append((sample.kv_capacity, sample.kv_usage))
    assert levels == [(481_280, 0.0), (481_280, 0.75), (481_280, 1.0)]


def test_capacity_is_taken_at_idle_only() -> None:
    server = Server({"/metrics": flare(100, 0, "flare_requests_running 2\n")})
    scraper = Scraper(server.fetch, ticking())
    busy = scrape(scraper, "interval", None)
    server.answers["/metrics"] = flare(100, 20)
    unknown = scrape(scraper, "interval", None)
    server.answers["/metrics"] = flare(150, 50, "flare_requests_running 0\n")
    idle = scrape(scraper, "interval", None)
    assert busy is not None and unknown is not None and idle is not None
    assert (busy.kv_capacity, busy.kv_usage) == (None, None)
    assert (unknown.kv_capacity, unknown.kv_usage) == (None, None)
    assert (idle.kv_capacity, idle.kv_usage) == (200, 0.25)


def test_a_resumed_run_knows_the_pool_it_saw_before() -> None:
    scraper = Scraper(Server({"/metrics": flare(50, 50)}).fetch, ticking(), capacity=200)
    sample = scrape(scraper)
    assert sample is not None
    assert (sample.kv_capacity, sample.kv_usage) == (200, 0.75)


def test_an_engines_own_gauges_win_over_what_was_worked_out() -> None:
    sample = scraped((200, (PAGES / "sglang_0.5.txt").read_text(), None))
    assert (sample.kv_capacity, sample.kv_usage) == (100_000, 0.3)


def test_the_dialect_stays_when_its_families_vanish() -> None:
    server = Server({"/metrics": flare(10, 0)})
    scraper = Scraper(server.fetch, ticking())
    scrape(scraper)
    server.answers["/metrics"] = (200, "acme_queue_depth 7\n", None)
    sample = scrape(scraper)
    assert sample is not None
    assert (sample.dialect, sample.kv_free, sample.raw) == ("flare", None, {})


def test_a_dialect_may_be_given() -> None:
    scraper = Scraper(Server({"/metrics": flare(10, 0)}).fetch, ticking(), "vllm")
    sample = scrape(scraper)
    assert sample is not None
    assert (sample.dialect, sample.kv_free) == ("vllm", None)


def test_a_page_of_nobody_we_know_gives_raw_values_only() -> None:
    sample = scraped((200, "acme_queue_depth 7\n", None))
    assert (sample.dialect, sample.raw, sample.problem) == ("unknown", {"acme_queue_depth": 7}, None)


def test_parsing_runs_where_it_is_told_to() -> None:
    elsewhere: list[Page] = []

    async def offload(work: Callable[[], Page]) -> Page:
        page = await asyncio.to_thread(work)
        elsewhere.append(page)
        return page

    sample = scrape(Scraper(Server({"/metrics": flare(10, 0)}).fetch, ticking(), offload=offload))
    assert sample is not None
    assert sample.kv_free == 10
    assert len(elsewhere) == 1


SLOT = '{"id":0,"n_ctx":1000,"is_processing":%s,"n_prompt_tokens":200,"next_token":[{"n_decoded":50}]}'


@pytest.mark.parametrize(
    ("slots", "usage"),
    [
        ((PAGES / "llamacpp_slots_idle.json").read_text(), 0.0),
        (f"[{SLOT % 'true'}]", 0.25),
        (f"[{SLOT % 'false'}]", 0.0),
        (f"[{SLOT % 'true'},{SLOT % 'true'}]", None),
        ("<html>", None),
        ("[" * 100_000, None),
        ('{"error": 1}', None),
    ],
    ids=["recorded", "running", "idle", "two slots may share", "html", "nested", "no list"],
)
def test_llamacpps_usage_comes_from_its_slots(slots: str, usage: float | None) -> None:
    page = (PAGES / "llamacpp_b11434.txt").read_text()
    sample = scrape(Scraper(Server({"/metrics": (200, page, None), "/slots": (200, slots, None)}).fetch, ticking()))
    assert sample is not None
    assert (sample.dialect, sample.kv_capacity, sample.kv_usage) == ("llama.cpp", None, usage)


def test_slots_that_are_switched_off_are_asked_for_once() -> None:
    page = (PAGES / "llamacpp_b11434.txt").read_text()
    server = Server({"/metrics": (200, page, None), "/slots": (501, "", None)})
    scraper = Scraper(server.fetch, ticking())
    scrape(scraper)
    scrape(scraper)
    assert server.asked.count("/slots") == 1


def test_scrapes_may_overlap() -> None:
    server = Server({"/metrics": flare(10, 0)})
    scraper = Scraper(server.fetch, ticking())

    async def both() -> list[Sample | None]:
        scrapes: list[Awaitable[Sample | None]] = [scraper.scrape("interval", None), scraper.scrape("step", 1)]
        return list(await asyncio.gather(*scrapes))

    assert [sample is not None and sample.kv_free == 10 for sample in asyncio.run(both())] == [True, True]


def test_a_page_that_hangs_is_asked_for_less_and_less_often() -> None:
    now = 0.0

    async def hang(path: str) -> Answer:
        nonlocal now
        asked.append(now)
        now += 10.0
        return None, "", "no answer within 10 s"

    asked: list[float] = []
    scraper = Scraper(hang, lambda: now)
    for _ in range(100):
        sample = scrape(scraper)
        assert sample is not None and sample.problem is not None, "a page that hangs is not one that is absent"
        now += 1.0
    assert len(asked) == 5, asked
    assert asked[2] - asked[1] > 19 and asked[3] - asked[2] > 29 and asked[4] - asked[3] > 49


def test_a_page_that_answers_again_is_asked_for_each_time_again() -> None:
    answers: list[Answer] = [(None, "", "no answer")] * 3 + [flare(1, 1)] * 3
    now, asked = 0.0, 0

    async def fetch(path: str) -> Answer:
        nonlocal now, asked
        asked += 1
        answer = answers[asked - 1]
        now += 10.0 if answer[0] is None else 0.01
        return answer

    scraper = Scraper(fetch, lambda: now)
    samples = []
    for _ in range(80):
        if asked < len(answers):
            samples.append(scrape(scraper))
        now += 1.0
    assert [sample.kv_free for sample in samples[-3:] if sample is not None] == [1, 1, 1]


def test_two_scrapes_never_overlap_so_that_no_counter_seems_to_fall() -> None:
    answers = iter(range(1, 3))

    async def fetch(path: str) -> tuple[int | None, str, str | None]:
        number = next(answers)
        # The first page is the slower one; without turns the second would be recorded before it.
        await asyncio.sleep(0.05 if number == 1 else 0)
        return 200, f"flare_generation_tokens_total {number}\n", None

    seen: list[float | None] = []

    async def one(scraper: Scraper) -> None:
        sample = await scraper.scrape("step", 0)
        seen.append(sample.generation_tokens if sample else None)

    async def both() -> None:
        scraper = Scraper(fetch, ticking())
        await asyncio.gather(one(scraper), one(scraper))

    asyncio.run(both())
    assert seen == [1, 2]
