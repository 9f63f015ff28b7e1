#!/usr/bin/env python3
"""Makes tests/data/sentencepiece: models that SentencePiece trains on a text, and what it makes of texts and ids.

Usage: sentencepiece_cases.py TEXT FOLDER, with sentencepiece 0.2.3 of PyPI installed.

Of each model NAME.model there is NAME.tsv, a case a line: a text in hexadecimal, its ids, and the text of these ids
likewise; a line without a text has ids alone."""

import pathlib
import random
import sys

import sentencepiece

# What each model is for stands in the folder's README.
MODELS = {
    "unigram": {"vocab_size": 400},
    "bpe": {"vocab_size": 400, "model_type": "bpe", "normalization_rule_name": "identity", "user_defined_symbols": "<num>"},
    "bytes": {"vocab_size": 700, "byte_fallback": True, "normalization_rule_name": "identity", "character_coverage": 0.98,
              "user_defined_symbols": "<num>,ab,abc,der Hund", "control_symbols": "<2de>", "unk_surface": "?"},
    "suffix": {"vocab_size": 650, "model_type": "bpe", "byte_fallback": True, "treat_whitespace_as_suffix": True,
               "remove_extra_whitespaces": False, "normalization_rule_name": "identity", "character_coverage": 0.98},
    "spaces": {"vocab_size": 300, "remove_extra_whitespaces": False, "allow_whitespace_only_pieces": True,
               "normalization_rule_name": "identity"},
    "bare": {"vocab_size": 300, "model_type": "bpe", "add_dummy_prefix": False, "normalization_rule_name": "identity"},
    "characters": {"vocab_size": 200, "model_type": "char", "normalization_rule_name": "identity"},
}

ODD = [" ", "   ", "a", " a", "a ", "  a   b  ", "a\tb\nc\r", "\u00a0a\u00a0", "\u3000a", "▁", "▁a", "a▁b", "▁ ▁", "<unk>", "<s>", "</s>x",
       "<num>", "a<num>b", "<num", "ab", "abc", "xabcx", "der Hund", "der  Hund", "<2de>", "<0x41>", "ＡＢＣ", "ﬁn", "①②", "㎏", "﷽",
       "日本語のテキスト", "e\u0301", "é", "한국어", "\U0001f600\U0001f601x", "ÄÖÜß", "\u200b", "a\u0000b", "…", "aaaaaaaaaaaaaaaaaaaa",
       "Donaudampfschiffahrtsgesellschaft", "\ufeffa", "\ufffd"]
BROKEN = [b"\xff", b"a\xc3", b"\xe2\x96", b"a\xed\xa0\x80b", b"\xf0\x9f\x98", b"\x80\x80a", b"\xc3\xa4\xc3"]
ALPHABET = "aäbcdeinrstuß  .,1▁éλ日\U0001f600<>num"


def train(text, folder, name, options):
    kind = {"model_type": "unigram", **options}
    sentencepiece.SentencePieceTrainer.train(input=text, model_prefix=str(folder / name), minloglevel=2, num_threads=1, **kind)
    (folder / f"{name}.vocab").unlink()
    return sentencepiece.SentencePieceProcessor(model_file=str(folder / f"{name}.model"))


def cases(processor, sentences):
    texts = [sentence.encode() for sentence in random.sample(sentences, 25)] + [odd.encode() for odd in ODD] + BROKEN
    texts += ["".join(random.choices(ALPHABET, k=random.randint(1, 30))).encode() for _ in range(50)]
    for text in texts:
        ids = processor.encode(text)
        yield text, ids
    for _ in range(50):
        low = random.choice([3, 260])  # many bytes, where there are some
        yield b"", [random.randrange(0, low if random.random() < 0.5 else processor.vocab_size()) for _ in range(random.randint(1, 12))]


def main():
    folder = pathlib.Path(sys.argv[2])
    sentences = pathlib.Path(sys.argv[1]).read_text(encoding="utf-8").splitlines()
    random.seed(1)
    for name, options in MODELS.items():
        processor = train(sys.argv[1], folder, name, options)
        with open(folder / f"{name}.tsv", "w", encoding="ascii") as out:
            for text, ids in cases(processor, sentences):
                ids = [i for i in ids if i < processor.vocab_size()]
                out.write(f"{text.hex()}\t{' '.join(map(str, ids))}\t{processor.decode(ids).encode().hex()}\n")


if __name__ == "__main__":
    main()
