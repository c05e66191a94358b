"""Print the tables of the model cards.

Through a running service:    python training/evaluate --data EVAL --service http://127.0.0.1:8080 [--key KEY]
On the ONNX files directly:   python training/evaluate --data EVAL --direct [--models models] [--file model_quantized.onnx]

--only flores,ntrex,sts,rerank picks parts, --languages swh,fra limits languages, --json FILE keeps the figures,
--sample FILE runs the small fixed sample that the tests use, --expect FILE writes its figures and floors for the tests."""
import argparse
import json
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))
import sets
from backends import Direct, Service
from metrics import ndcg
from sample import expect, sample_table
from sentences import bitext_table, flores_languages, sts_table

EMBEDDER, RERANKER = "embed-multilingual", "rerank-mini"


def rerank_table(rerank, root, candidates, limit, report):
    report["rerank"] = {}
    print("\nReranking the 50 passages nearest by bge-small cosine, nDCG@10")
    for name, entry in json.loads(Path(candidates).read_text()).items():
        queries, passages, wanted = sets.retrieval(root, name)
        scores = []
        for i, order in enumerate(entry["candidates"][: limit or None]):
            s = rerank(queries[i], [passages[p] for p in order])
            scores.append(ndcg(np.asarray(order)[np.argsort(-s, kind="stable")], wanted[i]))
        report["rerank"][name] = {"ours": float(np.mean(scores)), "queries": len(scores), **entry["figures"]}
        print(name, {k: round(v, 4) for k, v in report["rerank"][name].items()}, flush=True)


def main():
    args = argparse.ArgumentParser(prog="evaluate", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    args.add_argument("--data", help="directory of the held-out sets")
    args.add_argument("--service", help="base URL of a running service")
    args.add_argument("--key", help="API key for the service")
    args.add_argument("--direct", action="store_true")
    args.add_argument("--models", default=str(Path(__file__).parents[2] / "models"))
    args.add_argument("--version", help="of the shipped files (direct); the newest unless given")
    args.add_argument("--embedder", help="directory of the embedder (direct)")
    args.add_argument("--reranker", help="directory of the reranker (direct)")
    args.add_argument("--embedder-name", default=f"baobab/{EMBEDDER}")
    args.add_argument("--reranker-name", default=f"baobab/{RERANKER}")
    args.add_argument("--file", default="model_quantized.onnx")
    args.add_argument("--only", default="flores,ntrex,sts,rerank")
    args.add_argument("--languages")
    args.add_argument("--candidates", default=str(Path(__file__).parent / "candidates.json"))
    args.add_argument("--queries", type=int, default=0, help="at most this many queries of each reranking set")
    args.add_argument("--sample")
    args.add_argument("--expect", help="with --sample, a service and a pinned --embedder-name")
    args.add_argument("--json")
    args = args.parse_args()
    if not (args.direct or args.service):
        sys.exit("say --service URL or --direct")
    parts, report = args.only.split(","), {}

    def folder(given, name):
        versions = sorted((Path(args.models) / name).glob("????-??-??"))
        return Path(given) if given else Path(args.models) / name / (args.version or (versions[-1].name if versions else "none"))

    embed = rerank = None
    if {"flores", "ntrex", "sts"} & set(parts):
        embed = Service(args.service, args.embedder_name, args.key).embed if args.service else Direct(folder(args.embedder, EMBEDDER), args.file).embed
    if "rerank" in parts and (args.service or folder(args.reranker, RERANKER).exists()):
        rerank = Service(args.service, args.reranker_name, args.key).rerank if args.service else Direct(folder(args.reranker, RERANKER), args.file).rerank
    if args.sample:
        sample_table(embed, rerank, args.sample, report)
        if args.expect:
            expect(embed, args.embedder_name, report["sample"], args.expect)
    else:
        pick = args.languages.split(",") if args.languages else None
        if "flores" in parts:
            corpus = sets.flores(args.data)
            bitext_table(embed, corpus, pick or flores_languages(corpus), "FLORES-200 devtest", report)
        if "sts" in parts:
            sts_table(embed, args.data, report)
        if "ntrex" in parts:
            corpus = sets.ntrex(args.data)
            bitext_table(embed, corpus, [l for l in corpus if not l.startswith("eng") and (not pick or l in pick)], "NTREX-128", report)
        if rerank and "rerank" in parts:
            rerank_table(rerank, args.data, args.candidates, args.queries, report)
    if args.json:
        Path(args.json).write_text(json.dumps(report, indent=1))


if __name__ == "__main__":
    main()
