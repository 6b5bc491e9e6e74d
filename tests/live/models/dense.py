"""Write a small random Qwen3 model: `python dense.py FOLDER [hidden layers heads kv_heads head_size dtype]`.

Its answers are junk, but junk that depends on the whole context: the weights are far larger than an initialiser
would make them, and only tokens of letters can win. A model whose answer does not depend on its prompt would pass
every comparison of a warm send with a cold one.
"""

import sys

import torch
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM
from vocabulary import END, PAD, SPECIAL, TEMPLATE, speakable, trained

_CONTEXT = 131_072
_TINY = ("64", "2", "4", "2", "32", "bfloat16")


def _model(size: list[int], vocabulary: int) -> Qwen3ForCausalLM:
    hidden, layers, heads, kv_heads, head_size = size
    config = Qwen3Config(
        vocab_size=vocabulary,
        hidden_size=hidden,
        intermediate_size=2 * hidden,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=kv_heads,
        head_dim=head_size,
        max_position_embeddings=_CONTEXT,
        tie_word_embeddings=False,
        bos_token_id=PAD,
        eos_token_id=END,
        pad_token_id=PAD,
    )
    torch.manual_seed(0)
    return Qwen3ForCausalLM(config)


def _loud(model: Qwen3ForCausalLM, mute: list[int]) -> None:
    """Scale every matrix to keep the signal's size, sharpen attention, and silence what an answer may not hold."""
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if weight.dim() == 2:
                gain = 1.0 if "embed" in name else 3.0 if "lm_head" in name else 1.5
                fan_in = 1 if "embed" in name else weight.shape[1]
                weight.normal_(std=gain * fan_in**-0.5)
            elif name.endswith(("q_norm.weight", "k_norm.weight")):
                weight.fill_(2.0)
        model.lm_head.weight[mute] = 0.0


def main(folder: str, *words: str) -> None:
    """Write config, tokenizer and weights into `folder`."""
    *size, dtype = words or _TINY
    tokenizer = trained()
    tokens = tokenizer.get_vocab()
    model = _model([int(word) for word in size], len(tokens))
    _loud(model, [number for token, number in tokens.items() if not speakable(token)])
    model.generation_config.do_sample = False
    model.to(getattr(torch, dtype)).save_pretrained(folder)
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        chat_template=TEMPLATE,
        eos_token=SPECIAL[END],
        pad_token=SPECIAL[PAD],
        model_max_length=_CONTEXT,
        clean_up_tokenization_spaces=False,
    ).save_pretrained(folder)
    print(f"{folder}: {sum(weight.numel() for weight in model.parameters()):,} parameters, {len(tokens):,} tokens")


if __name__ == "__main__":
    main(*sys.argv[1:])
