"""Write a tiny random hybrid model (gated DeltaNet and attention) for llama.cpp: `python hybrid.py FILE.gguf`.

llama.cpp keeps snapshots of such a model's recurrent state beside its KV cells, which is the class of cache that the
reported bug lives in. Decays are slow, so that the state still carries the start of a long prompt at its end.
"""

import json
import sys
from collections.abc import Iterator

import gguf
import numpy as np
from vocabulary import END, PAD, SPECIAL, TEMPLATE, speakable, trained

_LAYERS, _ATTENTION_EVERY = 4, 4
_HIDDEN, _FEED, _HEADS, _KV_HEADS, _HEAD = 64, 128, 4, 2, 32
_KEY_HEADS, _VALUE_HEADS, _STATE, _KERNEL = 2, 4, 32, 4
_KEYS, _VALUES = _KEY_HEADS * _STATE, _VALUE_HEADS * _STATE
_ARCHITECTURE = "qwen35"
Tensors = Iterator[tuple[str, "np.ndarray"]]


class Draw:
    """Random matrices of a seeded generator, scaled by their fan-in."""

    def __init__(self) -> None:
        self._random = np.random.default_rng(0)

    def matrix(self, rows: int, columns: int, gain: float = 1.0) -> np.ndarray:
        return (self._random.standard_normal((rows, columns)) * gain * columns**-0.5).astype(np.float32)


def _full(size: int, value: float = 1.0) -> np.ndarray:
    return np.full(size, value, np.float32)


def _attention(draw: Draw) -> Tensors:
    yield "attn_q.weight", draw.matrix(2 * _HEADS * _HEAD, _HIDDEN)
    yield "attn_k.weight", draw.matrix(_KV_HEADS * _HEAD, _HIDDEN)
    yield "attn_v.weight", draw.matrix(_KV_HEADS * _HEAD, _HIDDEN, 2.0)
    yield "attn_output.weight", draw.matrix(_HIDDEN, _HEADS * _HEAD, 3.0)
    yield "attn_q_norm.weight", _full(_HEAD, 1.5)
    yield "attn_k_norm.weight", _full(_HEAD, 1.5)


def _delta_net(draw: Draw) -> Tensors:
    yield "attn_qkv.weight", draw.matrix(2 * _KEYS + _VALUES, _HIDDEN, 1.5)
    yield "attn_gate.weight", draw.matrix(_VALUES, _HIDDEN, 2.0)
    yield "ssm_conv1d.weight", draw.matrix(2 * _KEYS + _VALUES, _KERNEL)
    yield "ssm_dt.bias", _full(_VALUE_HEADS)
    yield "ssm_a", -np.geomspace(0.002, 0.1, _VALUE_HEADS).astype(np.float32)
    yield "ssm_beta.weight", draw.matrix(_VALUE_HEADS, _HIDDEN)
    yield "ssm_alpha.weight", draw.matrix(_VALUE_HEADS, _HIDDEN)
    yield "ssm_norm.weight", _full(_STATE)
    yield "ssm_out.weight", draw.matrix(_HIDDEN, _VALUES, 2.0)


def _layer(number: int, draw: Draw) -> Tensors:
    yield "attn_norm.weight", _full(_HIDDEN)
    yield "post_attention_norm.weight", _full(_HIDDEN)
    yield from _attention(draw) if (number + 1) % _ATTENTION_EVERY == 0 else _delta_net(draw)
    yield "ffn_gate.weight", draw.matrix(_FEED, _HIDDEN, 2.0)
    yield "ffn_up.weight", draw.matrix(_FEED, _HIDDEN)
    yield "ffn_down.weight", draw.matrix(_HIDDEN, _FEED, 2.0)


def _tensors(tokens: list[str]) -> Tensors:
    draw = Draw()
    yield "token_embd.weight", draw.matrix(len(tokens), _HIDDEN, _HIDDEN**0.5)
    yield "output_norm.weight", _full(_HIDDEN)
    for number in range(_LAYERS):
        for name, weight in _layer(number, draw):
            yield f"blk.{number}.{name}", weight
    output = draw.matrix(len(tokens), _HIDDEN, 3.0)
    output[[number for number, token in enumerate(tokens) if not speakable(token)]] = 0.0
    yield "output.weight", output


def _describe(writer: gguf.GGUFWriter, tokens: list[str], merges: list[str]) -> None:
    writer.add_name("tiny random hybrid")
    writer.add_block_count(_LAYERS)
    writer.add_context_length(131_072)
    writer.add_embedding_length(_HIDDEN)
    writer.add_feed_forward_length(_FEED)
    writer.add_head_count(_HEADS)
    writer.add_head_count_kv(_KV_HEADS)
    writer.add_key_length(_HEAD)
    writer.add_value_length(_HEAD)
    writer.add_layer_norm_rms_eps(1e-6)
    writer.add_rope_freq_base(1e6)
    writer.add_rope_dimension_count(_HEAD // 2)
    writer.add_rope_dimension_sections([3, 3, 2, 0])
    writer.add_ssm_conv_kernel(_KERNEL)
    writer.add_ssm_state_size(_STATE)
    writer.add_ssm_group_count(_KEY_HEADS)
    writer.add_ssm_time_step_rank(_VALUE_HEADS)
    writer.add_ssm_inner_size(_VALUES)
    writer.add_full_attention_interval(_ATTENTION_EVERY)
    writer.add_vocab_size(len(tokens))
    _speak(writer, tokens, merges)


def _speak(writer: gguf.GGUFWriter, tokens: list[str], merges: list[str]) -> None:
    kinds = [gguf.TokenType.CONTROL if token in SPECIAL else gguf.TokenType.NORMAL for token in tokens]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(tokens)
    writer.add_token_types(kinds)
    writer.add_token_merges(merges)
    writer.add_eos_token_id(END)
    writer.add_pad_token_id(PAD)
    # A first token that all prompts share hides faults of rolling back.
    writer.add_add_bos_token(False)
    writer.add_chat_template(TEMPLATE)


def main(path: str) -> None:
    """Write the model to `path`."""
    tokenizer = trained()
    tokens = [token for token, _ in sorted(tokenizer.get_vocab().items(), key=lambda item: item[1])]
    merges = json.loads(tokenizer.to_str())["model"]["merges"]
    writer = gguf.GGUFWriter(path, _ARCHITECTURE)
    _describe(writer, tokens, [merge if isinstance(merge, str) else " ".join(merge) for merge in merges])
    for name, weight in _tensors(tokens):
        writer.add_tensor(name, np.ascontiguousarray(weight))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    print(f"{path}: {len(tokens):,} tokens")


if __name__ == "__main__":
    main(*sys.argv[1:])
