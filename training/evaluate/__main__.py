"""Print the tables of the model cards.

Through a running service:    python training/evaluate --data EVAL --service http://127.0.0.1:8080 [--key KEY]
On the ONNX files directly:   python training/evaluate --data EVAL --direct [--models models] [--file model_quantized.onnx]

--only flores,ntrex,sts,rerank picks parts, --languages swh,fra limits languages, --json FILE keeps the figures,
--sample FILE runs the small fixed sample that the tests use."""
import argparse
import json
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))
import sets
from backends import Direct, Service
from metrics import bitext, ndcg, spearman

VERSION = "2026-11-15"
EMBEDDER, RERANKER = "embed-multilingual", "rerank-mini"


def percent(x):
    return f"{100 * x:5.1f}"


def bitext_table(embed, corpus, english, languages, title, report):
    base = embed(corpus[english])
    rows = {}
    print(f"\n{title}: share of sentences whose translation is nearest among {len(base)}, mean of both directions, %")
    print(f"{'language':12}" + "".join(f"{d:>7}" for d in (384, 256, 128, 64)))
    for language in languages:
        v = embed(corpus[language])
        rows[language] = {d: bitext(v, base, d) for d in (384, 256, 128, 64)}
        print(f"{language:12}" + "".join(f"  {percent(x)}" for x in rows[language].values()), flush=True)
    for name, members in (("African mean", [l for l in rows if l in sets.AFRICAN]), ("mean of all", list(rows))):
        if len(members) > 1:
            rows[name] = {d: float(np.mean([rows[l][d] for l in members])) for d in (384, 256, 128, 64)}
            print(f"{name:12}" + "".join(f"  {percent(x)}" for x in rows[name].values()), f"({len(members)} languages)")
    report[title] = rows


def sts_table(embed, root, report):
    report["STS-B"] = {}
    print("\nSTS-B test, Spearman correlation")
    for language in ("en", "fr", "de", "es", "it", "nl", "pl", "pt", "ru", "zh", "ja"):
        a, b, gold = sets.stsb(root, language)
        x, y = embed(a), embed(b)
        report["STS-B"][language] = {}
        for d in (384, 256, 128, 64):
            cut = lambda v: v[:, :d] / np.linalg.norm(v[:, :d], axis=1, keepdims=True)
            report["STS-B"][language][d] = spearman((cut(x) * cut(y)).sum(1), gold)
        print(f"{language:12}" + "".join(f"  {x:.3f}" for x in report["STS-B"][language].values()), flush=True)


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


def sample_table(embed, rerank, path, report):
    """Figures of the fixed sample, beside the floors the tests assert."""
    sample = json.loads(Path(path).read_text(encoding="utf8"))
    found = {}
    if embed:
        base = embed(sample["flores"]["eng"])
        found["bitext"] = {l: round(bitext(embed(t), base), 4) for l, t in sample["flores"].items() if l != "eng"}
        found["sts"] = {l: round(spearman((embed(s["first"]) * embed(s["second"])).sum(1), s["score"]), 4) for l, s in sample["stsb"].items()}
    if rerank:
        found["rerank"] = round(float(np.mean([ndcg(np.argsort(-rerank(r["query"], r["passages"]), kind="stable"), {int(k): v for k, v in r["relevant"].items()}) for r in sample["rerank"]])), 4)
    print(json.dumps(found, indent=1))
    report["sample"] = found


def main():
    args = argparse.ArgumentParser(prog="evaluate", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    args.add_argument("--data", help="directory of the held-out sets")
    args.add_argument("--service", help="base URL of a running service")
    args.add_argument("--key", help="API key for the service")
    args.add_argument("--direct", action="store_true")
    args.add_argument("--models", default=str(Path(__file__).parents[2] / "models"))
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
    args.add_argument("--json")
    args = args.parse_args()
    if not (args.direct or args.service):
        sys.exit("say --service URL or --direct")
    parts, report = args.only.split(","), {}
    folder = lambda given, name: Path(given) if given else Path(args.models) / name / VERSION
    embed = rerank = None
    if {"flores", "ntrex", "sts"} & set(parts):
        embed = Service(args.service, args.embedder_name, args.key).embed if args.service else Direct(folder(args.embedder, EMBEDDER), args.file).embed
    if "rerank" in parts and (args.service or folder(args.reranker, RERANKER).exists()):
        rerank = Service(args.service, args.reranker_name, args.key).rerank if args.service else Direct(folder(args.reranker, RERANKER), args.file).rerank
    if args.sample:
        sample_table(embed, rerank, args.sample, report)
    else:
        pick = args.languages.split(",") if args.languages else None
        if "flores" in parts:
            corpus = sets.flores(args.data)
            found = pick or [l for l in sets.AFRICAN] + [l for l in corpus if l not in sets.AFRICAN and l != "eng"]
            bitext_table(embed, corpus, "eng", found, "FLORES-200 devtest", report)
        if "sts" in parts:
            sts_table(embed, args.data, report)
        if "ntrex" in parts:
            corpus = sets.ntrex(args.data)
            bitext_table(embed, corpus, "eng", [l for l in corpus if not l.startswith("eng") and (not pick or l in pick)], "NTREX-128", report)
        if rerank and "rerank" in parts:
            rerank_table(rerank, args.data, args.candidates, args.queries, report)
    if args.json:
        Path(args.json).write_text(json.dumps(report, indent=1))


if __name__ == "__main__":
    main()
