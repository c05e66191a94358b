"""Retrieval accuracy, rank correlation, nDCG and chrF."""
from collections import Counter

import numpy as np


def unit(x):
    return x / np.maximum(np.linalg.norm(x, axis=-1, keepdims=True), 1e-12)


def bitext(foreign, english, dims=None):
    """Share of sentences whose translation is the nearest of all candidates, mean of both directions."""
    a, b = (unit(v[:, :dims]) for v in (foreign, english))
    s, k = a @ b.T, np.arange(len(a))
    return float(((s.argmax(1) == k).mean() + (s.argmax(0) == k).mean()) / 2)


def ranks(x):
    _, inverse, count = np.unique(np.asarray(x, dtype=float), return_inverse=True, return_counts=True)
    return (np.cumsum(count) - (count - 1) / 2)[inverse]


def spearman(a, b):
    return float(np.corrcoef(ranks(a), ranks(b))[0, 1])


def ndcg(order, wanted, k=10):
    """order: passage indices best first; wanted: {passage index: gain}."""
    gain = sum(wanted.get(int(p), 0) / np.log2(i + 2) for i, p in enumerate(order[:k]))
    best = sum(g / np.log2(i + 2) for i, g in enumerate(sorted(wanted.values(), reverse=True)[:k]))
    return gain / best if best else 0.0


def chrf(texts, references, order=6, beta=2):
    """chrF2 of a collection as sacrebleu computes it by default: n-grams of characters without spaces, precision and recall averaged over n."""
    grams = lambda s, n: Counter(s[i:i + n] for i in range(len(s) - n + 1))
    texts, references = (["".join(s.split()) for s in side] for side in (texts, references))
    precision, recall = [], []
    for n in range(1, order + 1):
        pairs = [(grams(a, n), grams(b, n)) for a, b in zip(texts, references)]
        said, wanted = (sum(p[side].total() for p in pairs) for side in (0, 1))
        if said and wanted:
            shared = sum((a & b).total() for a, b in pairs)
            precision.append(shared / said)
            recall.append(shared / wanted)
    if not precision or not sum(recall):
        return 0.0
    p, r = (sum(side) / len(side) for side in (precision, recall))
    return 100 * (1 + beta ** 2) * p * r / (beta ** 2 * p + r)
