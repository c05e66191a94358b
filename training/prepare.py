"""Clean and gather everything the embedder trains on: python prepare.py --data DATA --out PREPARED

Splitting this from training keeps the accelerator free of text work."""
import argparse
import json
import random
from pathlib import Path

import numpy as np

import data as D

# English passages and queries that keep the student close to its teachers on long text and questions.
EXTRA = ("acl", "afriqa", "covid_faq", "githubdocs", "k8s", "mdn", "medquad", "selqa", "wordnet", "para_tatoeba", "para_bible")


def main():
    args = argparse.ArgumentParser()
    args.add_argument("--data", required=True)
    args.add_argument("--out", required=True)
    args.add_argument("--limit", type=int, default=0, help="keep only this many pairs (for a trial run)")
    args = args.parse_args()
    out = Path(args.out)
    out.mkdir(parents=True, exist_ok=True)
    rng = random.Random(0)

    data = D.load_parallel(args.data)
    stsb, grades = D.load_stsb(args.data)
    # The last tenth of the graded rows is validation; the rows are shuffled once because they are grouped by source.
    order = list(range(len(grades)))
    rng.shuffle(order)
    stsb = {l: ([a[i] for i in order], [b[i] for i in order]) for l, (a, b) in stsb.items()}
    grades = [grades[i] for i in order]
    cut = len(grades) * 9 // 10
    D.add_stsb_translations(data, {l: (a[:cut], b[:cut]) for l, (a, b) in stsb.items()})
    made = D.add_dictionary_sentences(data)
    weight = D.pair_weights(data)

    extra = set()
    for row in D.load_ranking(args.data, names=EXTRA):
        limit = 0.5 if row["file"] in ("mdn", "wordnet", "para_bible") else 1.0
        if rng.random() > limit:
            continue
        for text in (row["query"], row["pos"]):
            text = D.clean(text)[:1000]
            if len(text) > 12:
                extra.add(text)
    extra = sorted(extra)
    rng.shuffle(extra)
    extra = extra[:130000]

    keep = np.arange(len(data.text))
    if args.limit:
        keep = np.sort(np.random.default_rng(0).choice(len(keep), args.limit, replace=False, p=weight))
    flat = lambda s: s.replace("\n", " ").replace("\r", " ")
    (out / "english.txt").write_text("\n".join(map(flat, data.english)), encoding="utf8", newline="\n")
    (out / "foreign.txt").write_text("\n".join(flat(data.text[i]) for i in keep), encoding="utf8", newline="\n")
    (out / "extra.txt").write_text("\n".join(map(flat, extra)), encoding="utf8", newline="\n")
    np.savez(out / "columns.npz", eid=np.asarray(data.eid, np.int32)[keep], lang=np.asarray(data.lang, np.int16)[keep],
             weight=weight[keep].astype(np.float64))
    validation = {l: r[:500] for l, r in data.validation.items() if len(r) >= 100}
    (out / "meta.json").write_text(json.dumps({
        "langs": data.langs, "group": data.group, "validation": validation,
        "stsb": stsb, "grades": grades, "stsb_train": cut,
    }, ensure_ascii=False), encoding="utf8")

    share = {}
    for i, l in enumerate(np.asarray(data.lang)):
        share[l] = share.get(l, 0) + weight[i]
    by_group = {}
    for l, w in share.items():
        g = data.group.get(data.langs[l], "other")
        by_group[g] = by_group.get(g, 0) + w
    by_source = {}
    for s, w in zip(data.source, weight):
        by_source[s] = by_source.get(s, 0) + w
    r = lambda d: {k: round(float(v), 4) for k, v in sorted(d.items(), key=lambda x: -x[1])}
    print("pairs", len(data.text), "of them from dictionaries", made, "English", len(data.english), "extra English", len(extra))
    print("share by group", r(by_group))
    print("share by source", r(by_source))
    print("share by language", dict(list(r({data.langs[l]: w for l, w in share.items()}).items())[:60]))
    print("validation languages", {l: len(v) for l, v in validation.items()})


if __name__ == "__main__":
    main()
