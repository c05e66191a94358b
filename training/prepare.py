"""Clean and gather everything the embedder trains on: python prepare.py --data DATA --out PREPARED

Splitting this from training keeps the accelerator free of text work."""
import argparse
import json
import random
from pathlib import Path

import numpy as np

import data as D
import heldout

# English passages and queries that keep the student close to its teachers on long text and questions.
EXTRA_LIMIT = 200000
EXTRA = ("acl", "afriqa", "covid_faq", "githubdocs", "k8s", "mdn", "medquad", "selqa", "wordnet", "para_tatoeba", "para_bible")

# Passages whose sentences are rewritten with the lexicons.
CONTEXTS, CONTEXT_LIMIT = ("afriqa", "selqa", "medquad", "covid_faq", "acl"), 100000
QUERY_CHARACTERS, PASSAGE_CHARACTERS, QUERY_VALIDATION = 400, 1500, 1500


def flat(text):
    return " ".join(text.split())


def query_rows(root, held):
    """Queries, passages and rows (file, language, query, passage, group) without those in `held`."""
    queries, passages, groups, rows, seen, dropped = {}, {}, {}, [], set(), 0
    for row in D.load_ranking(root, None, D.QUERY_WEIGHT):
        query, passage = flat(D.clean(row["query"]))[:QUERY_CHARACTERS], flat(D.clean(row["pos"]))[:PASSAGE_CHARACTERS]
        if len(query) < 3 or len(passage) < 3 or (query, passage) in seen:
            continue
        seen.add((query, passage))
        if heldout.normalise(query) in held or heldout.normalise(row["pos"]) in held:
            dropped += 1
            continue
        rows.append((row["file"], row["lang"], queries.setdefault(query, len(queries)), passages.setdefault(passage, len(passages)),
                     groups.setdefault((row["file"], row["group"]), len(groups))))
    print("rows with a held-out query or passage, dropped", dropped)
    return list(queries), list(passages), rows


def hold_back(rows, rng):
    """Split the rows into those to train on and those to validate with, which share no group (a page), or no passage where a
    file has few groups."""
    by_file = {}
    for file, _, _, passage, group in rows:
        groups, texts = by_file.setdefault(file, (set(), set()))
        groups.add(group)
        texts.add(passage)
    back = set()
    for file, (groups, texts) in by_file.items():
        few = len(groups) < 100
        units = sorted(texts if few else groups)
        back.update((file, few, u) for u in rng.sample(units, round(len(units) * (0.1 if file == "afriqa" else 0.03))))
    away = [r for r in rows if (r[0], False, r[4]) in back or (r[0], True, r[3]) in back]
    queries, passages = {r[2] for r in away}, {r[3] for r in away}
    return [r for r in rows if r[2] not in queries and r[3] not in passages], away


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
    graded = heldout.graded(args.data)
    known = {i for i, pair in enumerate(zip(*stsb["en"])) if tuple(map(heldout.normalise, pair)) in graded}
    cut = sum(i not in known for i in order[:len(order) * 9 // 10])
    order = [i for i in order if i not in known]
    stsb = {l: ([a[i] for i in order], [b[i] for i in order]) for l, (a, b) in stsb.items()}
    grades = [grades[i] for i in order]
    print("graded rows that are in dev or test too, dropped", len(known))
    D.add_stsb_translations(data, {l: (a[:cut], b[:cut]) for l, (a, b) in stsb.items()})
    # Short sentences recur by chance, and single sentences of STS-B recur across its splits.
    held = heldout.english(args.data, earlier=False)
    held_foreign = {l: heldout.foreign(args.data, l) for l in data.langs}
    is_held = lambda text: heldout.normalise(text) in held
    print("pairs with a held-out side, dropped",
          data.drop(is_held, lambda lang, text: held_foreign[lang] and heldout.normalise(text) in held_foreign[lang]))
    contexts = [s for s in D.passage_sentences(args.data, CONTEXTS, CONTEXT_LIMIT) if not is_held(s)]
    made = D.add_dictionary_sentences(data, contexts)
    weight = D.pair_weights(data)

    searched = heldout.search(args.data)
    queries, passages, rows = query_rows(args.data, searched)
    rows, away = hold_back(rows, rng)
    held_back = {queries[r[2]] for r in away} | {passages[r[3]] for r in away}
    rng.shuffle(away)
    away.sort(key=lambda r: r[0] != "afriqa")
    qp_validation = [{"file": r[0], "lang": r[1], "query": queries[r[2]], "passage": r[3]} for r in away[:QUERY_VALIDATION]]
    columns = {f"qp_{name}": np.array([r[k] for r in rows], np.int32) for name, k in (("query", 2), ("passage", 3), ("group", 4))}
    columns["qp_weight"] = np.array([D.QUERY_WEIGHT[r[0]] for r in rows], np.float32)

    extra = set()
    for row in D.load_ranking(args.data, names=EXTRA):
        limit = 0.5 if row["file"] in ("mdn", "wordnet", "para_bible") else 1.0
        if rng.random() > limit:
            continue
        for text in (row["query"], row["pos"]):
            text = flat(D.clean(text))[:PASSAGE_CHARACTERS]
            if len(text) > 12 and text not in held_back:
                extra.add(text)
    extra = sorted(t for t in extra if (n := heldout.normalise(t)) not in held and n not in searched)
    rng.shuffle(extra)
    extra = extra[:EXTRA_LIMIT]

    keep = np.nonzero(weight)[0]
    if args.limit:
        keep = np.sort(np.random.default_rng(0).choice(len(weight), args.limit, replace=False, p=weight))
    # Only English that is paired: the rest is the English side of validation pairs.
    used, eid = np.unique(np.asarray(data.eid, np.int32)[keep], return_inverse=True)
    for name, texts in (("english", (data.english[i] for i in used)), ("foreign", (data.text[i] for i in keep)), ("extra", extra),
                        ("queries", queries), ("passages", passages)):
        (out / f"{name}.txt").write_text("\n".join(map(flat, texts)), encoding="utf8", newline="\n")
    np.savez_compressed(out / "columns.npz", eid=eid.astype(np.int32), lang=np.asarray(data.lang, np.int16)[keep],
                        weight=weight[keep].astype(np.float32), **columns)
    validation = {l: r[:500] for l, r in data.validation.items() if len(r) >= 100}
    (out / "pivot.tsv").write_text((Path(args.data) / "parallel/pivot.txt").read_text(encoding="utf8"), encoding="utf8", newline="\n")
    (out / "meta.json").write_text(json.dumps({
        "langs": data.langs, "group": data.group, "validation": validation,
        "stsb": stsb, "grades": grades, "stsb_train": cut, "qp_validation": qp_validation,
    }, ensure_ascii=False), encoding="utf8")

    def share(names):
        total = {}
        for name, w in zip(names, weight):
            total[name] = total.get(name, 0) + w
        return {k: round(float(v), 4) for k, v in sorted(total.items(), key=lambda x: -x[1])}

    by_language = share(data.langs[i] for i in data.lang)
    print("pairs", len(keep), "of them from dictionaries", made, "English", len(used), "extra English", len(extra))
    print("share by group", share(data.group.get(data.langs[i], "other") for i in data.lang))
    print("share by source", share(data.source))
    print("share of the African languages", round(sum(by_language[l] for l in D.AFRICAN), 4), {l: by_language[l] for l in D.AFRICAN})
    made_share = share((data.langs[i], s == "D") for i, s in zip(data.lang, data.source))
    print("share of D in them", {l: round(made_share[l, True] / by_language[l], 2) for l in D.AFRICAN if (l, True) in made_share})
    print("share of the others", dict([(l, w) for l, w in by_language.items() if l not in D.AFRICAN][:40]))
    print("queries", len(queries), "passages", len(passages), "rows", len(columns["qp_query"]), "validation", len(qp_validation),
          {f: sum(v["file"] == f for v in qp_validation) for f in sorted({v["file"] for v in qp_validation})})
    print("validation languages", {l: len(v) for l, v in validation.items()})


if __name__ == "__main__":
    main()
