"""Train the WordPiece vocabulary: python tokenizer.py --data DATA --out tokenizer.json"""
import argparse
import json
import random
import unicodedata
from collections import Counter
from pathlib import Path

from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

from data import AFRICAN, QUERY_WEIGHT, load_parallel, load_ranking

# How many sentences of one language the vocabulary sees, by group.
SAMPLE = {"af": 40000, "afmin": 2500, "major": 9000, "other": 800, "con": 100}
# Small African languages are repeated until they weigh about this many sentences; the first is for the measured ones.
AFRICAN_FLOOR, OTHER_FLOOR, SENTENCE = 20000, 12000, 80
PASSAGES, PASSAGE_CHARACTERS = 60000, 300
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


def corpus(data, passages, rng):
    yield from data.english
    yield from (p[:PASSAGE_CHARACTERS] for p in rng.sample(passages, min(PASSAGES, len(passages))))
    texts = {}
    for lang, text in zip(data.lang, data.text):
        texts.setdefault(lang, []).append(text)
    for lang, rows in texts.items():
        group = data.group.get(data.langs[lang], "other")
        limit = SAMPLE[group]
        rows = rows if len(rows) <= limit else rng.sample(rows, limit)
        floor = AFRICAN_FLOOR if data.langs[lang] in AFRICAN else OTHER_FLOOR
        for _ in range(max(1, min(6, floor * SENTENCE // sum(map(len, rows)))) if group == "af" else 1):
            yield from rows


def extended(path, data, most):
    """An earlier vocabulary with the letters, marks and digits it lacks, the most frequent first: a word with an unknown character is unknown as a whole."""
    spec = json.loads(Path(path).read_text(encoding="utf8"))
    vocab, tok = spec["model"]["vocab"], Tokenizer.from_file(path)
    alone = lambda c: "\u4e00" <= c <= "\u9fff"  # split off as a word of its own
    count = Counter()
    for lang, text in zip(data.lang, data.text):
        if data.group.get(data.langs[lang]) in ("af", "major"):
            count.update(c for c in tok.normalizer.normalize_str(text) if unicodedata.category(c)[0] in "LMN")
    for c, n in count.most_common():
        new = [piece for piece in ((c,) if alone(c) else (c, "##" + c)) if piece not in vocab]
        if n >= 3 and len(vocab) + len(new) <= most:
            for piece in new:
                vocab[piece] = len(vocab)
    return spec


def main():
    args = argparse.ArgumentParser()
    args.add_argument("--data", required=True)
    args.add_argument("--out", required=True)
    args.add_argument("--vocab", type=int, default=64000)
    args.add_argument("--extend", help="keep the pieces of this tokenizer.json and add characters, up to --vocab")
    args = args.parse_args()
    data = load_parallel(args.data)
    if args.extend:
        spec = extended(args.extend, data, args.vocab)
        Path(args.out).write_text(json.dumps(spec, ensure_ascii=False), encoding="utf8")
        print("vocabulary", len(spec["model"]["vocab"]))
        return
    passages = sorted({row["pos"] for row in load_ranking(args.data, None, QUERY_WEIGHT)})
    print("languages", len(data.langs), "pairs", len(data.text), "English", len(data.english),
          "validation", sum(map(len, data.validation.values())), flush=True)
    tok = Tokenizer(models.WordPiece(unk_token="[UNK]", max_input_chars_per_word=200))
    tok.normalizer = normalizers.Sequence([
        normalizers.NFC(),
        normalizers.BertNormalizer(clean_text=True, handle_chinese_chars=True, strip_accents=False, lowercase=True),
    ])
    tok.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tok.decoder = decoders.WordPiece(prefix="##")
    tok.train_from_iterator(corpus(data, passages, random.Random(0)), trainers.WordPieceTrainer(
        vocab_size=args.vocab, limit_alphabet=6500, min_frequency=2, special_tokens=SPECIAL, show_progress=False))
    tok.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", tok.token_to_id("[CLS]")), ("[SEP]", tok.token_to_id("[SEP]"))])
    tok.save(args.out)
    print("vocabulary", tok.get_vocab_size())


if __name__ == "__main__":
    main()
