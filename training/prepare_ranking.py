"""Gather the English query-passage rows the reranker trains on: python prepare_ranking.py --data DATA --out rows.jsonl"""
import argparse
import json
import random

import data as D

# Rows per file; question answering and science count most, word lists and command help least.
ROWS = {
    "acl": 25000, "afriqa": 10000, "covid_faq": 10000, "githubdocs": 12000, "intents": 2000, "k8s": 6000, "mdn": 15000,
    "medquad": 16500, "para_tatoeba": 2500, "powershell": 3000, "selqa": 10000, "tldr": 5000, "wordnet": 8000,
}


def main():
    args = argparse.ArgumentParser()
    args.add_argument("--data", required=True)
    args.add_argument("--out", required=True)
    args = args.parse_args()
    rng, files = random.Random(0), {}
    for row in D.load_ranking(args.data, names=ROWS):
        query, pos = D.clean(row["query"]), D.clean(row["pos"])[:1200]
        if len(query) < 3 or len(pos) < 12 or query == pos:
            continue
        kept = {"file": row["file"], "group": row.get("group", ""), "query": query[:400], "pos": pos}
        if row.get("neg"):
            kept["neg"] = [D.clean(n)[:1200] for n in row["neg"][:4]]
        files.setdefault(row["file"], []).append(kept)
    with open(args.out, "w", encoding="utf8", newline="\n") as f:
        for name, rows in sorted(files.items()):
            rows = rows if len(rows) <= ROWS[name] else rng.sample(rows, ROWS[name])
            print(name, len(rows))
            for r in rows:
                f.write(json.dumps(r, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
