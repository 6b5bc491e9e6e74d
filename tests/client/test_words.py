"""A refusal that speaks of length means that the prompt does not fit; no other refusal means that."""

import pytest

from kvstress.client.words import kind_of_status
from kvstress.core.outcome import Kind


@pytest.mark.parametrize(
    "said",
    [
        "This model's maximum context length is 8192 tokens. However, your prompt contains 9000",
        "request (18024 tokens) exceeds the available context size (16384 tokens), try increasing it",
        '{"error":{"code":"context_length_exceeded"}}',
        '{"error":{"message":"no","type":"exceed_context_size_error"}}',
        "The input (70000 tokens) is longer than the model's context length (65536 tokens).",
        "prompt is too long: 210000 tokens > 200000 maximum",
        "Input length 5000 exceeds max_input_len 4096",
        "`inputs` tokens + `max_new_tokens` must be <= 4096",
        "Please reduce the length of the messages or completion.",
        "Request too large",
        "The prompt has 9001 tokens and the KV pool of this server holds 6144 tokens in all; shorten the prompt or …",
        "the number of prompt tokens exceeds the limit",
    ],
)
def test_words_about_length_mean_too_long(said: str) -> None:
    assert kind_of_status(400, said, None) is Kind.TOO_LONG
    assert kind_of_status(422, said, None) is Kind.TOO_LONG


@pytest.mark.parametrize(
    "said",
    [
        "max_tokens must be at least 1, got -1.",
        "Expected 'messages' to be an array",
        "Field 'n': Value must be between 1 <= value <= 1, but got 2",
        "top_logprobs must be between 0 and 20",
        "temperature must not be negative",
        "unknown field context",
        "",
    ],
)
def test_other_words_mean_any_other_refusal(said: str) -> None:
    assert kind_of_status(400, said, None) is Kind.CLIENT_ERROR


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (401, "token limit exceeded"),
        (403, "your plan's context length"),
        (404, "no model long-context-length"),
        (414, "URI too long"),
        (429, "tokens per minute exceeded: too many tokens"),
        (431, "Request header fields too large"),
    ],
)
def test_credentials_quotas_names_and_long_heads_are_not_about_the_prompt(status: int, said: str) -> None:
    assert kind_of_status(status, said, None) is Kind.CLIENT_ERROR


@pytest.mark.parametrize(
    ("status", "retry_after", "kind"),
    [
        (413, None, Kind.TOO_LONG),
        (429, "3", Kind.OVERLOADED),
        (429, None, Kind.CLIENT_ERROR),
        (503, "0", Kind.OVERLOADED),
        (503, None, Kind.SERVER_ERROR),
        (500, "3", Kind.SERVER_ERROR),
        (599, None, Kind.SERVER_ERROR),
        (100, None, Kind.UNEXPECTED_STATUS),
        (204, None, Kind.UNEXPECTED_STATUS),
        (301, None, Kind.UNEXPECTED_STATUS),
        (999, None, Kind.UNEXPECTED_STATUS),
    ],
)
def test_a_status_has_one_kind(status: int, retry_after: str | None, kind: Kind) -> None:
    assert kind_of_status(status, "", retry_after) is kind
