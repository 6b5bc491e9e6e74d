"""A byte-level BPE vocabulary of 2,048 tokens, trained here so that a model of ours needs nobody's files.

Both tiny models use it. It must compress: a prompt of 16,000 tokens that is one byte a token would be an easy prompt.
"""

import random

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
PAD, END = 0, 2
TEMPLATE = (
    "{%- for message in messages -%}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n"
    "{%- endfor -%}{%- if add_generation_prompt -%}<|im_start|>assistant\n{%- endif -%}"
)
_SIZE, _WORDS, _LINES = 2048, 2_500, 500


def trained() -> Tokenizer:
    """The tokenizer, the same on every machine."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=_SIZE,
        special_tokens=list(SPECIAL),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(_corpus(), trainer)
    return tokenizer


def speakable(token: str) -> bool:
    """Whether an answer may hold this token: plain letters, with or without the mark of a leading space."""
    letters = token.replace("Ġ", "")
    return letters.isascii() and letters.isalpha()


def _corpus() -> list[str]:
    draw = random.Random(7)
    syllables = [first + second for first in "bcdfghklmnprstvz" for second in "aeiou"]
    words = ["".join(draw.choices(syllables, k=draw.randint(1, 4))) for _ in range(_WORDS)]
    prose = [" ".join(draw.choices(words, k=50)) for _ in range(_LINES)]
    code = [
        f"    {draw.choice(words)}_{number} = {draw.choice(words)}({number}, {number + 1})" for number in range(2_000)
    ]
    return prose + code
