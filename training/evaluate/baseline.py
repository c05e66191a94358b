"""Candidates for reranking and the two baselines: python evaluate/baseline.py --data EVAL --model bge-small-en-v1.5 --out candidates.json

Every reranker orders the same 50 passages: the nearest by bge-small cosine. The baselines order them by that
cosine and by late interaction (mean over query tokens of the best cosine to a passage token)."""
import argparse
import json
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))
import sets
from backends import Direct
from metrics import ndcg

TOP = 50
INSTRUCTION = "Represent this sentence for searching relevant passages: "


def main():
    args = argparse.ArgumentParser()
    args.add_argument("--data", required=True)
    args.add_argument("--model", required=True)
    args.add_argument("--out", required=True)
    args = args.parse_args()
    model = Direct(args.model, pooling="cls")
    result = {}
    for name in ("cranfield", "scifact", "nq"):
        queries, passages, wanted = sets.retrieval(args.data, name)
        docs, asked = model.tokens(passages, batch=8), model.tokens(queries)
        matrix = np.stack([d[0] for d in docs]).astype(np.float32)
        cosine = np.stack([q[0] for q in asked]).astype(np.float32) @ matrix.T
        order = np.argsort(-cosine, axis=1, kind="stable")[:, :TOP]
        told = model.embed([INSTRUCTION + q for q in queries]) @ matrix.T
        figures = {"cosine": [], "cosine_instructed": [], "late": []}
        for i, q in enumerate(asked):
            q = q.astype(np.float32)
            late = np.array([(q @ docs[p].astype(np.float32).T).max(1).mean() for p in order[i]])
            figures["cosine"].append(ndcg(order[i], wanted[i]))
            figures["cosine_instructed"].append(ndcg(order[i][np.argsort(-told[i][order[i]], kind="stable")], wanted[i]))
            figures["late"].append(ndcg(order[i][np.argsort(-late, kind="stable")], wanted[i]))
        perfect = np.mean([ndcg(sorted(order[i], key=lambda p: -wanted[i].get(int(p), 0)), wanted[i]) for i in range(len(queries))])
        figures = {k: round(float(np.mean(v)), 4) for k, v in figures.items()}
        print(name, len(queries), "queries", len(passages), "passages", figures, "best possible", round(float(perfect), 4), flush=True)
        result[name] = {"figures": figures, "best": float(perfect), "candidates": order.tolist()}
        Path(args.out).write_text(json.dumps(result))


if __name__ == "__main__":
    main()
