"""nDCG@10 of late interaction over an encoder, on the 50 passages that every reranker orders:

    python training/evaluate/late.py --data EVAL --model models/embed-multilingual/VERSION --text 0.25 --words 0.15 --name baobab/rerank-multilingual@VERSION --json figures.json

It does what the service does, with the graph that the service makes of the file (one range of activations for each token; needs node), but
encodes each passage once for all queries, not once for each. candidates.json has the passages of the English sets, the nearest by
bge-small. For AfriQA they are the nearest by an embedding model of a running service (--service, --key, --nearest; --cache keeps vectors).
With --queries it also asks that service to order the passages of the first queries, and prints both figures for them."""
import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))
import figures
import sets
from backends import Direct, Service
from cache import Kept
from metrics import ndcg, unit

ROOT, TOP = Path(__file__).parents[2], 50
REWRITE = """import { readFileSync, writeFileSync } from 'node:fs';
import { withRowWiseRanges } from './packages/engines/src/onnx/graph/row-wise.ts';
const [from, to] = process.argv.slice(1);
writeFileSync(to, withRowWiseRanges(readFileSync(from)));"""


def rewritten(folder, file):
    """A copy of a model's folder with the graph as the service runs it."""
    folder, copy = Path(folder).resolve(), Path(tempfile.mkdtemp(prefix="late-"))
    for name in ("config.json", "tokenizer.json"):
        (copy / name).write_bytes((folder / name).read_bytes())
    subprocess.run(["node", "--input-type=module", "-e", REWRITE, folder / file, copy / file], cwd=ROOT, check=True)
    return copy


class TokenEncoder(Direct):
    """Vectors of the tokens of a text; a long text is read in overlapping windows, as the service does."""

    def windows(self, text):
        self.tok.no_truncation()
        first, *ids, last = self.tok.encode(text).ids
        room = self.config["max_position_embeddings"] - 2
        step = room - room // 4
        last_start = max(0, len(ids) - room)
        return [[first, *ids[s:s + room], last] for s in range(0, last_start + step, step)]

    def read(self, ids):
        """Ids without the first and last, unit vectors of all tokens, and that of the text."""
        row = np.array([ids], np.int64)
        vectors = self.session.run(None, {"input_ids": row, "attention_mask": np.ones_like(row), "token_type_ids": np.zeros_like(row)})[0][0]
        whole = vectors[0] if self.pooling == "cls" else vectors.mean(0)
        return row[0, 1:-1], unit(vectors).astype(np.float16), unit(whole)

    def parts(self, text):
        return [self.read(ids) for ids in self.windows(text)]


def match(query, part, text=0, words=0):
    """As late-interaction.ts: shares of it come from the cosine of both texts and from the words of the query that the part has."""
    (asked, tokens, whole), (ids, others, other) = query, part
    alike = (tokens.astype(np.float32) @ others.astype(np.float32).T).max(1).mean()
    return (1 - text - words) * alike + text * float(whole @ other) + words * np.isin(asked, ids).sum() / max(1, len(asked))


def by_scores(order, scores):
    return np.asarray(order)[np.argsort(-np.asarray(scores), kind="stable")]


def nearest(embed, queries, passages):
    return np.argsort(-(embed(queries) @ embed(passages).T), axis=1, kind="stable")[:, :TOP].tolist()


def main():
    args = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    args.add_argument("--data", required=True)
    args.add_argument("--model", required=True)
    args.add_argument("--file", default="model_quantized.onnx")
    args.add_argument("--candidates", default=str(Path(__file__).parent / "candidates.json"))
    args.add_argument("--sets", default="cranfield,scifact,nq")
    args.add_argument("--threads", type=int, default=1)
    args.add_argument("--text", type=float, default=0, help="match_text of the catalog")
    args.add_argument("--words", type=float, default=0, help="match_words of the catalog")
    args.add_argument("--pooling", help="default: that of the model's config.json, or mean")
    args.add_argument("--name", default="baobab/rerank-multilingual")
    args.add_argument("--service")
    args.add_argument("--key")
    args.add_argument("--nearest", default="baobab/embed-multilingual@2026-11-20")
    args.add_argument("--cache")
    args.add_argument("--queries", type=int, default=0, help="to ask the service")
    args.add_argument("--json")
    args = args.parse_args()
    encoder = TokenEncoder(rewritten(args.model, args.file), args.file, args.threads, args.pooling)
    candidates = json.loads(Path(args.candidates).read_text())
    for name in args.sets.split(","):
        queries, passages, wanted = sets.retrieval(args.data, name)
        if name in candidates:
            orders, by = candidates[name]["candidates"], "baai/bge-small-en-v1.5"
        else:
            orders, by = nearest(Kept(Service(args.service, args.nearest, args.key), args.cache).embed, queries, passages), args.nearest
        known, found = {}, []
        for i, order in enumerate(orders):
            query = encoder.parts(queries[i])[0]
            for p in order:
                if p not in known:
                    known[p] = encoder.parts(passages[p])
            scores = [max(match(query, part, args.text, args.words) for part in known[p]) for p in order]
            found.append(ndcg(by_scores(order, scores), wanted[i]))
        before = np.mean([ndcg(order, wanted[i]) for i, order in enumerate(orders)])
        best = np.mean([ndcg(sorted(order, key=lambda p: -wanted[i].get(p, 0)), wanted[i]) for i, order in enumerate(orders)])
        print(f"{name}: {np.mean(found):.4f} over {len(found)} queries; by {by} {before:.4f}, best order {best:.4f}", flush=True)
        if args.json:
            report = figures.read(args.json)
            ranked = report.setdefault("rerank", {})
            ranked.setdefault(args.name, {})[name] = float(np.mean(found))
            ranked.setdefault("candidates", {})[name] = {"by": by, "ndcg@10": float(before), "best": float(best)}
            figures.write(args.json, report)
        if args.queries:
            rerank = Service(args.service, args.name, args.key).rerank
            served = [ndcg(by_scores(order, rerank(queries[i], [passages[p] or "." for p in order])), wanted[i]) for i, order in enumerate(orders[:args.queries])]
            print(f"  the first {len(served)}: {np.mean(found[:len(served)]):.4f}, served {np.mean(served):.4f}", flush=True)


if __name__ == "__main__":
    main()
