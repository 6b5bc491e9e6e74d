"""Whatever a server answers, parsing gives series or one sentence."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kvstress.metrics.dialects import choose, read
from kvstress.metrics.parse import PAGE_CAP, parse

LINES = st.lists(
    st.one_of(
        st.text(max_size=40),
        st.from_regex(r"[a-z_:]{1,8}(\{[a-z]=\"[^\n]{0,5}\",?\})? [0-9eE+.NaInf_-]{1,8}( [0-9]+)?", fullmatch=True),
        st.from_regex(r"# (TYPE|HELP|EOF|UNIT)? ?[a-z_]{0,5} ?(counter|gauge|x)?", fullmatch=True),
        st.sampled_from(
            ["flare_free_kv_tokens", "vllm:cache_config_info{num_gpu_blocks=", "tgi_x 1", "{", '"', "# EOF"]
        ),
    ),
    max_size=8,
)


@given(LINES)
@example(["flare_free_kv_tokens " + "9" * 400])
@example(["a 1 " + "9" * 4000])
@example(['vllm:cache_config_info{num_gpu_blocks="1e309",block_size="-inf"} 1'])
@example(["tgi_batch_max_total_tokens 0", "tgi_batch_current_max_tokens 1"])
@example(['a{b="\\'])
@example(['{" "} 1'])
def test_no_page_makes_reading_raise(lines: list[str]) -> None:
    page = parse("\n".join(lines))
    words = read(page, choose(page))
    assert all(value == value and abs(value) != float("inf") for value in (*words.fields.values(), *words.raw.values()))


@given(st.binary(max_size=200))
def test_bytes_that_are_no_text_do_not_raise(content: bytes) -> None:
    page = parse(content.decode(errors="replace"))
    assert page.series or page.problem or content.strip() == b"" or content.lstrip().startswith(b"#")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            "<html><body>404</body></html>",
            "the page is not Prometheus text: it is HTML: '<html><body>404</body></html>'",
        ),
        ('[{"iter": 1, "kvCacheStats": {}}]', 'the page is not Prometheus text: it is JSON: \'[{"iter": 1, '),
        ("\x00\x01\x02\x03", "the page is not Prometheus text: it is binary: "),
        ("nothing to see", "the page is not Prometheus text: it begins: 'nothing to see'"),
        ("# only a remark\n", "the page is not Prometheus text: it begins: '# only a remark'"),
        ("", "the page is empty"),
        (" \n\n", "the page is empty"),
    ],
)
def test_what_is_no_metrics_page_is_told_in_one_sentence(text: str, problem: str) -> None:
    page = parse(text)
    assert not page.series
    assert page.problem is not None
    assert page.problem.startswith(problem)
    assert "\n" not in page.problem


def test_a_huge_page_is_not_read() -> None:
    page = parse("a 1\n" * (PAGE_CAP // 4 + 1))
    assert page.problem == f"the page has {PAGE_CAP + 4:,} characters, more than {PAGE_CAP:,}: not read"


def test_a_page_without_values_yet_is_no_problem() -> None:
    assert parse("# HELP a b\n# TYPE a counter\n").problem is None


def test_one_bad_line_costs_only_itself() -> None:
    page = parse("flare_free_kv_tokens 10\nflare_cached_kv_tokens ten\nflare_free_snapshots 3\n")
    assert set(page.series) == {"flare_free_kv_tokens", "flare_free_snapshots"}
    assert page.problem == "1 unreadable line(s), the first: 'flare_cached_kv_tokens ten'"


def test_a_page_cut_off_in_the_middle_keeps_what_came() -> None:
    page = parse('a{b="c"} 1\nd 2\ne{f="g')
    assert set(page.series) == {"a", "d"}
    assert page.problem is not None


def test_names_are_kept_as_exported() -> None:
    page = parse("# TYPE a counter\na 1\n# TYPE b_total counter\nb_total 2\n# TYPE c counter\nc_total 3\n")
    assert set(page.series) == {"a", "b_total", "c_total"}


def test_buckets_and_creation_times_are_left_out_but_sums_stay() -> None:
    page = parse('# TYPE h histogram\nh_bucket{le="1"} 1\nh_sum 4\nh_count 2\nh_created 17\n')
    assert set(page.series) == {"h_sum", "h_count"}


def test_the_same_series_twice_is_not_added_up() -> None:
    assert [one.value for one in parse('a{b="1"} 2\na{b="1"} 3\n').series["a"]] == [3]


def test_a_label_value_may_hold_what_other_tools_take_for_a_line_end() -> None:
    page = parse('a{b="x\u2028y"} 2\n')
    assert page.problem is None
    assert page.series["a"][0].labels == {"b": "x\u2028y"}


def test_values_may_be_infinite_or_no_number() -> None:
    page = parse("a NaN\nb +Inf\nc -Inf\n")
    assert str([page.series[name][0].value for name in "abc"]) == "[nan, inf, -inf]"
