"""Fit the score curve of a reranker:

    python fit_rerank_curve.py --data DATA --service URL --key KEY      late interaction, as it is served
    python fit_rerank_curve.py --data DATA --direct FOLDER              a cross-encoder, from its files

The curve turns a match (the mean best cosine of the query's tokens, or the number that a cross-encoder gives) into a score:
1 / (1 + exp(-steepness * (match - middle))). This fits both numbers by logistic regression on query-passage rows of DATA/ranking, never on the held-out sets. Every query counts as much
for its answer as for all its other passages together, and every source counts the same. The other passages are those of the same
group (one page or one article) and of other groups."""
import argparse
import json
import random
import re
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent / "evaluate"))
from backends import Direct, Service
from late import rewritten

ROOT = Path(__file__).parents[1]
# Languages of the queries. AfriQA has English and French passages for all its queries.
SOURCES = {
    "afriqa": ("en", "fr", "hau", "ibo", "kin", "yor", "zul", "twi", "bem"),
    "squad_multi": ("ar", "fr", "ja", "zh"),
    "selqa": ("en",),
}


def rows_of(root, name, language):
    path = Path(root) / "ranking" / f"{name}.jsonl"
    rows = [json.loads(line) for line in path.read_text(encoding="utf8").splitlines()]
    return [r for r in rows if r["lang"] == language and len(r["query"]) >= 8 and len(r["pos"]) >= 40]


def passages_for(row, rows, by_group, rng, others):
    """Half of the other passages are from the same group where it has enough."""
    near = [t for t in {r["pos"] for r in by_group[row["group"]]} | set(row.get("neg", [])) if t != row["pos"]]
    near = rng.sample(sorted(near), min(len(near), others // 2))
    far = set()
    while len(far) < others - len(near):
        other = rng.choice(rows)
        if other["group"] != row["group"] and other["pos"] != row["pos"]:
            far.add(other["pos"])
    return [row["pos"], *near, *sorted(far)]


def matches(scores, middle, steepness):
    """Inverts the served curve."""
    s = np.clip(scores.astype(np.float64), 1e-7, 1 - 1e-7)
    return middle + np.log(s / (1 - s)) / steepness


def served(args):
    # The recommended version is the first in the file.
    entry = (ROOT / "catalog" / f"{args.model}.yaml").read_text()
    curve = {k: float(re.search(rf"match_{k}: ([\d.]+)", entry).group(1)) for k in ("middle", "steepness")}
    service = Service(args.service, args.model, args.key)
    return lambda query, passages: matches(service.rerank(query, passages), **curve)


def direct(folder):
    file = "model_quantized.onnx"
    return Direct(rewritten(folder, file), file, 1).rerank


def fit(match, wanted, weight):
    """Weighted logistic regression by Newton's method: (middle, steepness)."""
    x = np.stack([match, np.ones_like(match)], 1)
    beta = np.zeros(2)
    for _ in range(50):
        p = 1 / (1 + np.exp(-x @ beta))
        step = np.linalg.solve((x * (weight * p * (1 - p))[:, None]).T @ x, x.T @ (weight * (wanted - p)))
        beta += step
        if np.abs(step).max() < 1e-9:
            break
    return -beta[1] / beta[0], beta[0]


def main():
    args = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    args.add_argument("--data", required=True)
    args.add_argument("--service")
    args.add_argument("--key")
    args.add_argument("--model", default="baobab/rerank-multilingual")
    args.add_argument("--direct")
    args.add_argument("--queries", type=int, default=40, help="of each source and language")
    args.add_argument("--others", type=int, default=4, help="other passages for each query")
    args = args.parse_args()
    match, rng, found = direct(args.direct) if args.direct else served(args), random.Random(0), []
    for name, languages in SOURCES.items():
        for language in languages:
            rows, by_group = rows_of(args.data, name, language), {}
            for r in rows:
                by_group.setdefault(r["group"], []).append(r)
            own = []
            for row in rng.sample(rows, min(len(rows), args.queries)):
                own.append(match(row["query"], passages_for(row, rows, by_group, rng, args.others)))
            own = np.stack(own)
            found.append((name, language, own))
            print(f"{name:12} {language:8} {len(own)} queries, answers {np.median(own[:, 0]):.3f} (tenth {np.quantile(own[:, 0], 0.1):.3f}), "
                  f"others {np.median(own[:, 1:]):.3f} (nine tenths {np.quantile(own[:, 1:], 0.9):.3f}), "
                  f"answer first {np.mean(own.argmax(1) == 0):.2f}", flush=True)

    def fitted(part):
        match = np.concatenate([own.ravel() for _, _, own in part])
        wanted = np.concatenate([np.tile([1.0] + [0.0] * (own.shape[1] - 1), len(own)) for _, _, own in part])
        share = np.concatenate([np.tile([1.0] + [1 / (own.shape[1] - 1)] * (own.shape[1] - 1), len(own)) / len(own) for _, _, own in part])
        return fit(match, wanted, share)

    for name in SOURCES:
        print(f"{name:12} middle {fitted([f for f in found if f[0] == name])[0]:.3f}")
    middle, steepness = fitted(found)
    print(f"all          middle {middle:.3f} steepness {steepness:.1f}")
    for name, language, own in found:
        s = 1 / (1 + np.exp(-steepness * (own - middle)))
        print(f"{name:12} {language:8} over one half: answers {np.mean(s[:, 0] > 0.5):.2f}, others {np.mean(s[:, 1:] > 0.5):.2f}")


if __name__ == "__main__":
    main()
