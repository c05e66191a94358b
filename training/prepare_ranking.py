"""Gather what the reranker trains on: python prepare_ranking.py --data DATA --out PREPARED

Each query has one passage that answers it, and where it is not English also its English, which the English teachers read. Queries are
those of the rows, English ones rewritten word for word in African languages, and sentences whose translation is the passage or a part of it."""
import argparse
import json
import random
from pathlib import Path

import data as D
import heldout
from prepare import hold_back, query_rows

# English rows of each file; question answering and science count most, word lists and command help least.
ROWS = {
    "acl": 25000, "afriqa": 10000, "covid_faq": 10000, "githubdocs": 12000, "intents": 2000, "k8s": 6000, "mdn": 15000,
    "medquad": 16500, "powershell": 3000, "selqa": 10000, "tldr": 5000, "wordnet": 8000,
}
# Files whose questions are rewritten, how often each.
REWRITTEN = {"afriqa": 6, "selqa": 6, "medquad": 1, "covid_faq": 3, "acl": 1, "githubdocs": 1, "wordnet": 1}
OTHER_LANGUAGES = 12000
# Sentences of an African language with their English, and the sources they are from.
SENTENCES, RUNNING = 6000, "SVHYZTXQBPR"
PASSAGE_CHARACTERS = 1200


def afriqa_english(rows, queries):
    """English of the AfriQA questions: rows of one passage are the same question in two languages, where there are only two."""
    by_passage = {}
    for file, lang, query, passage, _ in rows:
        if file == "afriqa":
            by_passage.setdefault(passage, []).append((lang, query))
    found = {}
    for asked in by_passage.values():
        english = [q for lang, q in asked if lang == "en"]
        if len(english) == 1 and len(asked) == 2:
            found.update((q, queries[english[0]]) for lang, q in asked if lang not in ("en", "fr"))
    return found


class Rewriter:
    """English word for word in a random African language, as far as its lexicon goes."""

    def __init__(self, data, rng):
        self.rng, self.known = rng, {data.langs[lang]: (words, {}) for lang, words in D.lexicons(data).items()}
        self.langs = [l for l in D.AFRICAN if l in self.known]

    def __call__(self, text):
        lang = self.rng.choice(self.langs)
        out, hits, total = D.rewrite(D.WORD_OR_GAP.findall(text), *self.known[lang], self.rng)
        return (lang, out) if hits >= 2 and hits / total > 0.35 else None


def main():
    args = argparse.ArgumentParser()
    args.add_argument("--data", required=True)
    args.add_argument("--out", required=True)
    args = args.parse_args()
    out = Path(args.out)
    out.mkdir(parents=True, exist_ok=True)
    # Draws what prepare.py draws before it holds rows back, so that the same rows stay unseen.
    rng = random.Random(0)
    rng.shuffle(list(range(len(D.load_stsb(args.data)[1]))))
    searched = heldout.search(args.data)
    queries, passages, rows = query_rows(args.data, searched)
    train, away = hold_back(rows, rng)

    data = D.load_parallel(args.data, languages=set(D.AFRICAN))
    held = heldout.english(args.data) | searched
    foreign = {l: heldout.foreign(args.data, l) for l in data.langs}
    data.drop(lambda s: heldout.normalise(s) in held, lambda lang, text: heldout.normalise(text) in foreign[lang])
    known = dict((data.text[i], data.english[e]) for i, e in enumerate(data.eid) if data.source[i] == "Q")
    afriqa = afriqa_english(rows, queries)
    rewritten = Rewriter(data, rng)
    unseen = {heldout.normalise(queries[r[2]]) for r in away} | {heldout.normalise(passages[r[3]]) for r in away}

    place, made = {}, []

    def passage(text):
        return place.setdefault(text, len(place))

    def add(kind, lang, query, english, answer, group, validation=False):
        made.append({"kind": kind, "lang": lang, "query": query, "english": english, "passage": passage(answer[:PASSAGE_CHARACTERS]),
                     "group": group, "validation": validation})

    by_file = {}
    for row in train:
        by_file.setdefault((row[0], row[1] == "en" or row[0] == "afriqa"), []).append(row)
    others = [r for (file, usual), rs in sorted(by_file.items()) if not usual and file == "squad_multi" for r in rs]
    chosen = [r for (file, usual), rs in sorted(by_file.items()) if usual and file in ROWS
              for r in (rs if len(rs) <= ROWS[file] else rng.sample(rs, ROWS[file]))]
    chosen += rng.sample(others, min(OTHER_LANGUAGES, len(others)))
    for validation, part in ((False, chosen), (True, away)):
        for file, lang, q, p, group in part:
            if file not in ROWS and file != "squad_multi":
                continue
            english = queries[q] if lang == "en" else known.get(queries[q]) or afriqa.get(q) if file == "afriqa" and lang != "fr" else None
            add(file, lang, queries[q], english, passages[p], group, validation)
    for file, lang, q, p, group in chosen:
        for _ in range(REWRITTEN.get(file, 0) if lang == "en" else 0):
            if found := rewritten(queries[q]):
                add(file, found[0], found[1], queries[q], passages[p], group)

    by_lang = {}
    for i, (lang, source) in enumerate(zip(data.lang, data.source)):
        english = data.english[data.eid[i]]
        if source in RUNNING and 25 < len(data.text[i]) < 260 and len(english) > 25 and heldout.normalise(english) not in unseen:
            by_lang.setdefault(lang, []).append(i)
    for lang, found in sorted(by_lang.items()):
        taken = rng.sample(found, min(SENTENCES, len(found)))
        # Rare sources first: of a Bible there is always enough.
        taken = [i for i in found if data.source[i] not in "BPT"][:SENTENCES // 2] + taken
        for i in dict.fromkeys(taken[:SENTENCES]):
            english = data.english[data.eid[i]]
            around = [english]
            for _ in range(rng.choice((0, 0, 1, 2, 3))):
                other = data.english[data.eid[rng.choice(found)]]
                if heldout.normalise(other) not in unseen:
                    around.insert(rng.randint(0, len(around)), other)
            add("sentence", data.langs[lang], data.text[i], english, " ".join(around), f"s{data.eid[i]}")

    texts = list(place)
    (out / "passages.json").write_text(json.dumps(texts, ensure_ascii=False), encoding="utf8")
    with open(out / "rows.jsonl", "w", encoding="utf8", newline="\n") as f:
        for row in made:
            f.write(json.dumps(row, ensure_ascii=False) + "\n")
    count = {}
    for row in made:
        key = (row["kind"], "held back" if row["validation"] else row["lang"] if row["kind"] == "sentence" else "en" if row["lang"] == "en" else "rewritten" if row["english"] and row["kind"] != "afriqa" else "other")
        count[key] = count.get(key, 0) + 1
    print("passages", len(texts), "rows", len(made), count)
    print("AfriQA questions with their English", sum(r["kind"] == "afriqa" and bool(r["english"]) and r["lang"] != "en" for r in made))


if __name__ == "__main__":
    main()
