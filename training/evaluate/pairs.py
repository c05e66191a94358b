"""nDCG@10 of a cross-encoder, on the 50 passages that every reranker orders (see late.py):

    python training/evaluate/pairs.py --data EVAL --model models/rerank-mini/VERSION --name baobab/rerank-mini@VERSION --sets afriqa,nq --every 6 --json figures.json

For AfriQA the passages are the nearest by --nearest. Each pair is read anew, so --every takes only each n-th query; what is measured of
the whole sets comes from train_reranker.py, on a GPU. With --late the same queries are also ordered as baobab/rerank-multilingual does it,
and with --queries the first ones by a running service."""
import argparse
import json
from pathlib import Path

import numpy as np

import figures
import sets
from backends import Direct, Service
from late import TokenEncoder, by_scores, match, nearest, rewritten
from metrics import ndcg

MODELS = Path(__file__).parents[2] / "models"


def main():
    args = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    args.add_argument("--data", required=True)
    args.add_argument("--model", required=True)
    args.add_argument("--candidates", default=str(Path(__file__).parent / "candidates.json"))
    args.add_argument("--sets", default="afriqa,afriqa-translated,scifact,cranfield,nq")
    args.add_argument("--every", type=int, default=1)
    args.add_argument("--threads", type=int, default=1)
    args.add_argument("--name", default="baobab/rerank-mini")
    args.add_argument("--nearest", default=str(MODELS / "embed-multilingual/2026-11-20"))
    args.add_argument("--late", help="the folder of an encoder")
    args.add_argument("--service")
    args.add_argument("--key")
    args.add_argument("--queries", type=int, default=0, help="to ask the service")
    args.add_argument("--json")
    args = args.parse_args()
    file = "model_quantized.onnx"
    scorer = Direct(rewritten(args.model, file), file, args.threads)
    scorer.tok.enable_truncation(scorer.config["max_position_embeddings"], strategy="only_second")
    encoder = TokenEncoder(rewritten(args.late, file), file, args.threads) if args.late else None
    candidates = json.loads(Path(args.candidates).read_text())
    for name in args.sets.split(","):
        queries, passages, wanted = sets.retrieval(args.data, name)
        queries, wanted = queries[::args.every], wanted[::args.every]
        if name in candidates:
            orders = candidates[name]["candidates"][::args.every]
        else:
            orders = nearest(Direct(rewritten(args.nearest, file), file, args.threads).embed, queries, passages)
        known, found = {}, {"as found": [], "late interaction": [], args.name: []}
        for query, order, right in zip(queries, orders, wanted):
            found["as found"].append(ndcg(order, right))
            found[args.name].append(ndcg(by_scores(order, scorer.rerank(query, [passages[p] for p in order])), right))
            if encoder:
                asked = encoder.parts(query)[0]
                known.update((p, encoder.parts(passages[p])) for p in order if p not in known)
                scores = [max(match(asked, part, 0.25, 0.15) for part in known[p]) for p in order]
                found["late interaction"].append(ndcg(by_scores(order, scores), right))
        print(name, len(queries), "queries", {k: round(float(np.mean(v)), 4) for k, v in found.items() if v}, flush=True)
        if args.json:
            report = figures.read(args.json)
            report.setdefault("rerank", {}).setdefault(args.name, {})[name] = float(np.mean(found[args.name]))
            figures.write(args.json, report)
        if args.queries:
            rerank = Service(args.service, args.name, args.key).rerank
            served = [ndcg(by_scores(order, rerank(q, [passages[p] or "." for p in order])), right)
                      for q, order, right in list(zip(queries, orders, wanted))[:args.queries]]
            print(f"  the first {len(served)}: {np.mean(found[args.name][:len(served)]):.4f}, served {np.mean(served):.4f}", flush=True)


if __name__ == "__main__":
    main()
