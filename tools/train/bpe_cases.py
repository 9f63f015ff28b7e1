#!/usr/bin/env python3
"""Makes tests/data/bpe: merges that subword-nmt learns of a text, and words as it cuts them.

Usage: bpe_cases.py TEXT FOLDER, with subword-nmt 0.3.8 of PyPI installed."""

import collections
import io
import pathlib
import random
import sys

from subword_nmt.apply_bpe import BPE
from subword_nmt.learn_bpe import learn_bpe

MERGES, WORDS = 400, 400
OTHERS = ["a", "aaaa", "aaaaaaa", "ß", "Übermäßigkeit", "日本語", "x@@", "@@", "</w>", "a</w>"]


def main():
    text = pathlib.Path(sys.argv[1]).read_text(encoding="utf-8")
    folder = pathlib.Path(sys.argv[2])
    codes = io.StringIO()
    learn_bpe(io.StringIO(text), codes, MERGES)
    folder.joinpath("codes").write_text(codes.getvalue(), encoding="utf-8")
    bpe = BPE(io.StringIO(codes.getvalue()))
    random.seed(1)
    words = random.sample(sorted(collections.Counter(text.split())), WORDS) + OTHERS
    lines = [f"{word}\t{' '.join(bpe.segment_tokens([word]))}\n" for word in words]
    folder.joinpath("words.tsv").write_text("".join(lines), encoding="utf-8")


if __name__ == "__main__":
    main()
