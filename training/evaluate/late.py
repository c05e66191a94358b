"""nDCG@10 of late interaction over an encoder, on the passages that every reranker orders (candidates.json):

    python training/evaluate/late.py --data EVAL --model models/embed-multilingual/VERSION [--sets cranfield,scifact,nq]

It does what the service does, but encodes each passage once for all queries, not once for each. With --service, --key and --name it also
asks a running service about the first queries and prints both figures for them."""
import argparse
import json
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))
import sets
from backends import Direct, Service
from metrics import ndcg, unit


class TokenEncoder(Direct):
    """Vectors of the tokens of a text; a long text is read in overlapping windows, as the service does."""

    def windows(self, text):
        self.tok.no_truncation()
        first, *ids, last = self.tok.encode(text).ids
        room = self.config["max_position_embeddings"] - 2
        step = room - room // 4
        last_start = max(0, len(ids) - room)
        return [[first, *ids[s:s + room], last] for s in range(0, last_start + step, step)]

    def vectors(self, text):
        rows = [np.array([ids], np.int64) for ids in self.windows(text)]
        feeds = [{"input_ids": row, "attention_mask": np.ones_like(row), "token_type_ids": np.zeros_like(row)} for row in rows]
        return [unit(self.session.run(None, feed)[0][0]).astype(np.float16) for feed in feeds]


def match(query, windows):
    return max((query @ w.astype(np.float32).T).max(1).mean() for w in windows)


def main():
    args = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    args.add_argument("--data", required=True)
    args.add_argument("--model", required=True)
    args.add_argument("--file", default="model_quantized.onnx")
    args.add_argument("--candidates", default=str(Path(__file__).parent / "candidates.json"))
    args.add_argument("--sets", default="cranfield,scifact,nq")
    args.add_argument("--threads", type=int, default=1)
    args.add_argument("--service")
    args.add_argument("--key")
    args.add_argument("--name", default="baobab/rerank-multilingual")
    args.add_argument("--queries", type=int, default=10, help="to ask the service")
    args = args.parse_args()
    encoder, candidates = TokenEncoder(args.model, args.file, args.threads), json.loads(Path(args.candidates).read_text())
    for name in args.sets.split(","):
        queries, passages, wanted = sets.retrieval(args.data, name)
        known, found = {}, []
        for i, order in enumerate(candidates[name]["candidates"]):
            query = encoder.vectors(queries[i])[0].astype(np.float32)
            for p in order:
                if p not in known:
                    known[p] = encoder.vectors(passages[p])
            scores = np.array([match(query, known[p]) for p in order])
            found.append(ndcg(np.asarray(order)[np.argsort(-scores, kind="stable")], wanted[i]))
        print(f"{name}: {np.mean(found):.4f} over {len(found)} queries; baselines", candidates[name]["figures"], flush=True)
        if args.service:
            rerank = Service(args.service, args.name, args.key).rerank
            served = []
            for i, order in enumerate(candidates[name]["candidates"][:args.queries]):
                scores = rerank(queries[i], [passages[p] or "." for p in order])
                served.append(ndcg(np.asarray(order)[np.argsort(-scores, kind="stable")], wanted[i]))
            print(f"  the first {len(served)}: {np.mean(found[:len(served)]):.4f}, served {np.mean(served):.4f}", flush=True)


if __name__ == "__main__":
    main()
