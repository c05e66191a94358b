"""Compare shares of a match: python fit_match.py --data DATA --model ../models/embed-multilingual/VERSION

Late interaction matches tokens; `match_text` and `match_words` in the catalog are the shares of the match that come from the pooled vectors
and from the words that both texts have. This prints nDCG@10 for several shares, over rows that our encoder was not trained on (see
prepare.py), never over the held-out sets. A query's passages are the 30 nearest by the encoder itself, of a part of the passages of its
file; a query whose answer is not among them says nothing and is left out."""
import argparse
import random
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent / "evaluate"))
import data as D
import heldout
from late import TokenEncoder, by_scores, match, rewritten
from metrics import ndcg
from prepare import hold_back, query_rows

# Queries and passages of each file.
FILES = {"afriqa": (1000, 800), "acl": (80, 220), "medquad": (80, 200), "selqa": (88, 250)}
NEAREST, PASSAGE_TOKENS = 30, 160
# Shares of the cosine of whole texts and of the words.
SHARES = ((0, 0), (0.25, 0), (0.5, 0), (0, 0.15), (0.15, 0.15), (0.25, 0.1), (0.25, 0.15), (0.25, 0.2), (0.35, 0.15))


def validation_rows(root):
    """The rows that prepare.py held back, with the same numbers drawn before."""
    rng = random.Random(0)
    rng.shuffle(list(range(len(D.load_stsb(root)[1]))))
    queries, passages, rows = query_rows(root, heldout.search(root))
    return queries, passages, rows, hold_back(rows, rng)[1]


def pools(root):
    """Of each file: queries with language and answer, and the passages to search, among them those of the same pages."""
    queries, passages, rows, away = validation_rows(root)
    rng = random.Random(1)
    for file, (most, size) in FILES.items():
        fits = lambda r: r[0] == file and (file == "afriqa" or r[1] == "en")
        asked = [r for r in away if fits(r)]
        asked = rng.sample(asked, min(most, len(asked)))
        answers, pages = {r[3] for r in asked}, {r[4] for r in asked}
        others = sorted({(r[4] not in pages, r[3]) for r in rows if fits(r) and r[3] not in answers})
        near, far = ([p for away, p in others if away == side] for side in (False, True))
        room = size - len(answers)
        near = rng.sample(near, min(len(near), room // 3))
        pool = sorted(answers) + near + rng.sample(far, min(len(far), room - len(near)))
        place = {p: i for i, p in enumerate(pool)}
        yield file, [(r[1], queries[r[2]], place[r[3]]) for r in asked], [passages[p] for p in pool]


def kind(file, language):
    return file if file != "afriqa" else f"afriqa, {language}" if language in ("en", "fr") else "afriqa, African languages"


def main():
    args = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    args.add_argument("--data", required=True)
    args.add_argument("--model", required=True)
    args.add_argument("--file", default="model_quantized.onnx")
    args.add_argument("--pooling")
    args.add_argument("--threads", type=int, default=1)
    args = args.parse_args()
    encoder, found = TokenEncoder(rewritten(args.model, args.file), args.file, args.threads, args.pooling), {}

    def read(texts):
        encoder.tok.enable_truncation(PASSAGE_TOKENS)
        return [encoder.read(e.ids) for e in encoder.tok.encode_batch(texts)]

    for file, rows, passages in pools(args.data):
        parts = read(passages)
        wholes = np.stack([whole for _, _, whole in parts])
        for (language, _, answer), query in zip(rows, read([q for _, q, _ in rows])):
            order = np.argsort(-(wholes @ query[2]), kind="stable")[:NEAREST]
            if answer not in order:
                continue
            figures = [ndcg(order, {answer: 1})]
            for text, words in SHARES:
                figures.append(ndcg(by_scores(order, [match(query, parts[p], text, words) for p in order]), {answer: 1}))
            found.setdefault(kind(file, language), []).append(figures)
    print("text, words".ljust(30), "as found", *(f"{t}, {w}".ljust(10) for t, w in SHARES))
    for name, figures in found.items():
        print(f"{name} ({len(figures)})".ljust(30), *(f"{f:.4f}".ljust(9) for f in np.mean(figures, 0)))


if __name__ == "__main__":
    main()
