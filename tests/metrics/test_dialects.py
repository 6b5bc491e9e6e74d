"""Each engine's page, recorded or written from its source, in canonical words."""

from pathlib import Path

import pytest

from kvstress.core.errors import UsageError
from kvstress.metrics.alias import Dialect
from kvstress.metrics.dialects import RAW_CAP, UNKNOWN, choose, named, read
from kvstress.metrics.engines import DIALECTS
from kvstress.metrics.parse import parse

PAGES = Path(__file__).parent.parent / "data" / "metrics"

CANONICAL: list[tuple[str, str, dict[str, float]]] = [
    (
        "flare_report.txt",
        "flare",
        {"kv_free": 12544, "kv_cached": 336896, "snapshots_free": 73, "requests_failed": 1},
    ),
    (
        "vllm_0.32_idle.txt",
        "vllm",
        {
            "kv_capacity": 65536,
            "kv_usage": 0,
            "running": 0,
            "waiting": 0,
            "preemptions": 0,
            "prefix_queries": 0,
            "prefix_hits": 0,
            "prompt_tokens": 0,
            "generation_tokens": 0,
            "requests_completed": 0,
            "requests_failed": 0,
            "process_started": 1796092288.01,
        },
    ),
    (
        "vllm_0.32_after_preemption.txt",
        "vllm",
        {
            "kv_capacity": 65536,
            "kv_usage": 0,
            "running": 0,
            "waiting": 0,
            "preemptions": 1,
            "prefix_queries": 224479,
            "prefix_hits": 47808,
            "prompt_tokens": 224479,
            "generation_tokens": 2877,
            "requests_completed": 19,
            "requests_failed": 0,
            "process_started": 1796092288.01,
        },
    ),
    (
        "vllm_0.24_dense.txt",
        "vllm",
        {
            "kv_capacity": 100_000,
            "kv_usage": 0,
            "running": 0,
            "waiting": 0,
            "preemptions": 0,
            "prefix_queries": 1_343_964,
            "prefix_hits": 671_744,
            "prompt_tokens": 1_343_964,
            "generation_tokens": 1358,
            "requests_completed": 56,
            "requests_failed": 0,
            "process_started": 1796098975.93,
        },
    ),
    (
        # 107 blocks of 544 would be 58,208: on a hybrid model a block does not hold that many tokens of every layer.
        "vllm_0.24_hybrid.txt",
        "vllm",
        {
            "kv_capacity": 39_842,
            "kv_usage": 0,
            "running": 0,
            "waiting": 0,
            "preemptions": 0,
            "prefix_queries": 305_599,
            "prefix_hits": 146_336,
            "prompt_tokens": 303_583,
            "generation_tokens": 4891,
            "requests_completed": 204,
            "requests_failed": 0,
            "process_started": 1796099325.52,
        },
    ),
    (
        # No finished_reason="error" there: failures are not observed, which is not 0.
        "vllm_0.6.txt",
        "vllm",
        {
            "kv_capacity": 16_000,
            "kv_usage": 0.75,
            "running": 2,
            "waiting": 3,
            "preemptions": 4,
            "prefix_queries": 4000,
            "prefix_hits": 1600,
            "prompt_tokens": 4000,
            "generation_tokens": 250,
            "requests_completed": 11,
        },
    ),
    ("vllm_two_engines.txt", "vllm", {"kv_capacity": 3100, "kv_usage": 0.5, "running": 7}),
    (
        "llamacpp_b11434.txt",
        "llama.cpp",
        {
            "running": 0,
            "waiting": 0,
            "prefix_queries": 15841,
            "prefix_hits": 11842,
            "prompt_tokens": 15841,
            "generation_tokens": 246,
        },
    ),
    (
        "llamacpp_old.txt",
        "llama.cpp",
        {"kv_usage": 0.25, "running": 1, "waiting": 0, "prompt_tokens": 900, "generation_tokens": 44},
    ),
    (
        # Tensor-parallel ranks say the same tokens twice, and the series without a priority is the total of the others.
        "sglang_0.5.txt",
        "sglang",
        {
            "kv_capacity": 100_000,
            "kv_free": 20_000,
            "kv_cached": 50_000,
            "kv_usage": 0.3,
            "running": 3,
            "waiting": 4,
            "preemptions": 7,
            "evictions": 4096,
            "prefix_queries": 90_000,
            "prefix_hits": 32_000,
            "prompt_tokens": 90_000,
            "generation_tokens": 1200,
            "requests_completed": 19,
        },
    ),
    (
        "tensorrt_llm.txt",
        "tensorrt-llm",
        {
            "kv_capacity": 5358 * 32,
            "kv_usage": 0.0015,
            "running": 1,
            "waiting": 0,
            "prefix_queries": 6400,
            "prefix_hits": 1600,
            "requests_completed": 40,
            "requests_failed": 3,
        },
    ),
    (
        "tgi_v3.txt",
        "tgi",
        {
            "kv_capacity": 32768,
            "kv_usage": 0.25,
            "running": 4,
            "waiting": 3,
            "prompt_tokens": 18000,
            "generation_tokens": 900,
            "requests_completed": 9,
            "requests_failed": 2,
        },
    ),
    (
        "lmdeploy.txt",
        "lmdeploy",
        {
            "kv_capacity": 64_000,
            "kv_usage": 0.4,
            "running": 2,
            "waiting": 5,
            "prefix_hits": 3500,
            "prompt_tokens": 7000,
            "generation_tokens": 300,
            "requests_completed": 11,
            "requests_failed": 1,
        },
    ),
    (
        "dynamo_frontend.txt",
        "dynamo",
        {
            "kv_capacity": 32_000,
            "running": 3,
            "waiting": 1,
            "prefix_hits": 8000,
            "prompt_tokens": 32_000,
            "generation_tokens": 640,
            "requests_completed": 20,
            "requests_failed": 2,
        },
    ),
    ("dynamo_worker.txt", "vllm", {"kv_usage": 0.1, "running": 1, "waiting": 0}),
]


@pytest.mark.parametrize(("page", "dialect", "fields"), CANONICAL, ids=[page for page, _, _ in CANONICAL])
def test_a_page_is_read_in_the_dialect_its_names_betray(page: str, dialect: str, fields: dict[str, float]) -> None:
    parsed = parse((PAGES / page).read_text())
    chosen = choose(parsed)
    words = read(parsed, chosen)
    assert chosen.name == dialect
    assert dict(words.fields) == pytest.approx(fields)
    assert words.problem is None


def test_every_dialect_has_a_page() -> None:
    assert {dialect for _, dialect, _ in CANONICAL} == {dialect.name for dialect in DIALECTS}


def test_a_counter_is_found_with_and_without_total() -> None:
    for spelling in ("flare_requests_failed", "flare_requests_failed_total"):
        page = parse(f"# TYPE {spelling} counter\n{spelling} 3\n")
        assert read(page, choose(page)).fields["requests_failed"] == 3


def test_an_openmetrics_page_reads_like_its_text_twin() -> None:
    page = parse("# TYPE flare_requests_failed counter\nflare_requests_failed_total 3.0\n# EOF\n")
    assert read(page, choose(page)).fields["requests_failed"] == 3


def test_nan_is_not_absent() -> None:
    page = parse("flare_free_kv_tokens NaN\nflare_cached_kv_tokens 5\nflare_free_snapshots +Inf\n")
    words = read(page, choose(page))
    assert dict(words.fields) == {"kv_cached": 5}
    assert words.problem == "kv_free (flare_free_kv_tokens) is nan; snapshots_free (flare_free_snapshots) is inf"
    assert words.raw == {"flare_cached_kv_tokens": 5}


def test_zero_is_not_absent() -> None:
    page = parse("flare_free_kv_tokens 0\n")
    assert dict(read(page, choose(page)).fields) == {"kv_free": 0}


def test_raw_keeps_own_series_by_exported_name_and_the_parts_of_a_sum() -> None:
    page = parse((PAGES / "vllm_0.32_after_preemption.txt").read_text())
    raw = read(page, named("vllm")).raw
    assert raw["vllm:num_preemptions_total"] == 1
    assert raw["vllm:request_success_total"] == 19
    assert raw['vllm:request_success_total{finished_reason="abort"}'] == 0
    assert raw['vllm:prompt_tokens_cached_by_source_total{source="device"}'] == 47808
    assert all(name.startswith("vllm:") for name in raw)
    assert not any(name.endswith(("_created", "_bucket")) for name in raw)


def test_raw_is_bounded() -> None:
    page = parse("".join(f"flare_{number} 1\n" for number in range(RAW_CAP + 50)))
    assert len(read(page, choose(page)).raw) == RAW_CAP


def test_an_unknown_page_keeps_raw_values_and_fills_nothing() -> None:
    page = parse("python_gc_objects_total 3\nacme_queue_depth 7\nkv_cache_usage_perc 0.5\n")
    words = read(page, choose(page))
    assert choose(page) is UNKNOWN
    assert dict(words.fields) == {}
    assert words.raw == {"acme_queue_depth": 7, "kv_cache_usage_perc": 0.5}


@pytest.mark.parametrize("dialect", DIALECTS, ids=[dialect.name for dialect in DIALECTS])
def test_a_page_in_another_dialect_fills_nothing(dialect: Dialect) -> None:
    assert dict(read(parse("acme_queue_depth 7\n"), dialect).fields) == {}


def test_a_dialect_is_named_without_regard_to_case_and_punctuation() -> None:
    assert named("llamacpp").name == "llama.cpp"
    assert named("TensorRT-LLM").name == "tensorrt-llm"


def test_a_dialect_that_is_none_is_refused_with_the_ones_there_are() -> None:
    with pytest.raises(UsageError, match=r"flare, vllm, llama\.cpp, sglang"):
        named("flair")
