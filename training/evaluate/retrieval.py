"""Search over whole collections: nDCG@10 and recall@100 of embedding models and of BM25."""
import math
import re

import numpy as np

import sets
from metrics import ndcg

SETS = ("nq", "cranfield", "afriqa", "afriqa-translated", "scifact")
WORD = re.compile(r"\w+")
DEPTH = 100
BM25 = "BM25"


def bm25(queries, passages, k1=0.9, b=0.4):
    """Scores of all passages for each query. Words are lower-cased; there is no stemming and no list of stop words."""
    postings, lengths = {}, np.zeros(len(passages))
    for i, text in enumerate(passages):
        words = WORD.findall(text.lower())
        lengths[i] = len(words)
        for word in set(words):
            postings.setdefault(word, []).append((i, words.count(word)))
    norm = k1 * (1 - b + b * lengths / lengths.mean())
    for query in queries:
        scores = np.zeros(len(passages))
        for word in set(WORD.findall(query.lower())):
            if word in postings:
                at, count = (np.array(column) for column in zip(*postings[word]))
                idf = math.log(1 + (len(passages) - len(at) + 0.5) / (len(at) + 0.5))
                scores[at] += idf * count * (k1 + 1) / (count + norm[at])
        yield scores


def figures(scores, wanted):
    """Means over the queries, and the two figures of each query."""
    each = []
    for row, rel in zip(scores, wanted):
        order = np.argsort(-row, kind="stable")[:DEPTH]
        each.append((ndcg(order, rel), sum(int(p) in rel for p in order) / len(rel)))
    return np.array(each)


def retrieval_table(embed, query, passage, root, names, report, save=lambda: None):
    """embed: of a model, or None for BM25; query, passage: what to put before them."""
    found, known = report.setdefault("retrieval", {}), {}

    def scores(queries, passages):
        if embed is None:
            return bm25(queries, passages)
        # The two AfriQA sets have the same passages.
        at = hash(tuple(passages))
        if at not in known:
            known[at] = embed([passage + p for p in passages])
        return embed([query + q for q in queries]) @ known[at].T

    print("\nSearch: nDCG@10 and recall@100")
    for name in names:
        queries, passages, wanted = sets.retrieval(root, name)
        each = figures(scores(queries, passages), wanted)
        found[name] = {"ndcg@10": float(each[:, 0].mean()), "recall@100": float(each[:, 1].mean())}
        print(f"  {name:20} {len(queries)} queries, {len(passages)} passages: {each[:, 0].mean():.4f}  {each[:, 1].mean():.4f}", flush=True)
        if name.startswith("afriqa"):
            languages = sets.afriqa_languages(root)
            by = {l: each[[i for i, x in enumerate(languages) if x == l]].mean(0) for l in sorted(set(languages))}
            found[name]["languages"] = {l: [float(n), float(r)] for l, (n, r) in by.items()}
            print("    " + ", ".join(f"{l} {n:.3f} {r:.3f}" for l, (n, r) in by.items()), flush=True)
        save()
