"""Each latency word, defined once, because tools disagree about all of them.

ITL is every single gap here (as in vLLM), not a per-request mean; TPOT leaves the first
token out and divides by tokens from `usage`, never by chunks, because under speculative
decoding a chunk carries several tokens. A non-streamed answer has no TTFT: its first byte
comes with its last.
"""

from operator import sub

from kvstress.core.exchange import Exchange


def ttft(exchange: Exchange) -> float | None:
    """Time to first token, seconds: first content chunk − sent. None unless content was streamed."""
    return exchange.chunk_at[0] - exchange.sent if exchange.chunk_at else None


def ttft_from_due(exchange: Exchange) -> float | None:
    """Seconds from when the request was due to its first content chunk: what a user waits under open load."""
    return exchange.chunk_at[0] - exchange.due if exchange.chunk_at else None


def itl(exchange: Exchange) -> tuple[float, ...]:
    """Inter-token latencies, seconds: each gap between consecutive content chunks."""
    return tuple(map(sub, exchange.chunk_at[1:], exchange.chunk_at))


def tpot(exchange: Exchange) -> float | None:
    """Time per output token, seconds: (last − first content chunk) / (completion_tokens − 1)."""
    tokens = exchange.usage.completion_tokens if exchange.usage else None
    if len(exchange.chunk_at) < 2 or tokens is None or tokens < 2:
        return None
    return (exchange.chunk_at[-1] - exchange.chunk_at[0]) / (tokens - 1)


def e2e(exchange: Exchange) -> float:
    """End-to-end latency, seconds: from sent to the end of the answer, whatever the outcome."""
    return exchange.ended - exchange.sent
