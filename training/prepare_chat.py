"""Write what train_chat.py reads: python prepare_chat.py --data DATA --out PREPARED [--news news.csv]

    pairs.jsonl        [language, source letter, English, translation]
    validation.jsonl   the same for picture-book pages, which are not trained on
    english.jsonl      {"ask"} questions and tasks in English that the start model answers, {"ask", "answer"} titles
    sentences.txt      English sentences to be translated by the model itself
    swahili.txt        Swahili sentences without a translation"""
import argparse
import csv
import json
import random
import re
from pathlib import Path

import heldout
from chat_examples import LANGUAGES
from data import load_parallel, load_ranking, passage_sentences
from heldout import normalise

TASKS = (
    "Summarize this text in one sentence.\n\n{}", "Explain this in simple words.\n\n{}", "What is this text about?\n\n{}", "Rewrite this in other words.\n\n{}")


def english_tasks(root, rng):
    rows = {}
    for row in load_ranking(root, names=("selqa", "medquad", "covid_faq", "afriqa", "acl", "wordnet", "tldr", "intents")):
        rows.setdefault(row["file"], []).append(row)
    for kept in rows.values():
        rng.shuffle(kept)
    take = lambda name, n: rows[name][:n]
    asked = [r["query"] for name, n in (("selqa", 2300), ("medquad", 2500), ("covid_faq", 1500), ("intents", 1500)) for r in take(name, n)]
    asked += [f"What does \"{r['query']}\" mean?" for r in take("wordnet", 1500) if len(r["query"]) < 30]
    asked += [rng.choice(TASKS).format(r["pos"][:600]) for name, n in (("selqa", 1500), ("medquad", 1000), ("afriqa", 1500)) for r in rows[name][-n:]]
    titles = [{"ask": f"Write a title for this text.\n\n{r['pos'][:900]}", "answer": r["query"]} for r in take("acl", 6000) if len(r["query"]) < 140]
    return [{"ask": q} for q in dict.fromkeys(asked) if 8 < len(q) < 900] + titles


def news_sentences(path):
    with open(path, encoding="utf8", newline="") as f:
        for row in csv.DictReader(f):
            for part in re.split(r"(?<=[.!?])\s*(?=[A-Z“\"])", " ".join(row["content"].split())):
                part = part.strip(" “”\"")
                if 40 <= len(part) <= 320 and part[0].isupper() and part[-1] in ".!?" and not part.isupper():
                    yield part


def main():
    args = argparse.ArgumentParser()
    args.add_argument("--data", required=True)
    args.add_argument("--out", required=True)
    args.add_argument("--news")
    args = args.parse_args()
    out, rng = Path(args.out), random.Random(0)
    out.mkdir(parents=True, exist_ok=True)
    data = load_parallel(args.data, languages=LANGUAGES)
    held = heldout.english(args.data)
    foreign = {lang: heldout.foreign(args.data, lang) for lang in LANGUAGES}
    print("held out:", data.drop(lambda s: normalise(s) in held, lambda lang, s: normalise(s) in foreign[lang]))
    write = lambda name, rows: (out / name).write_text("".join(json.dumps(r, ensure_ascii=False) + "\n" for r in rows), encoding="utf8")
    pairs = [(data.langs[l], s, data.english[e], t) for l, s, e, t in zip(data.lang, data.source, data.eid, data.text)]
    write("pairs.jsonl", pairs)
    write("validation.jsonl", [(lang, "K", a, b) for lang, rows in data.validation.items() for a, b in rows if normalise(a) not in held])
    searched = heldout.search(args.data)
    tasks = [t for t in english_tasks(args.data, rng) if normalise(t["ask"]) not in searched]
    write("english.jsonl", tasks)
    # Running text that has no Swahili side: encyclopedias, news, health and government, in Bambara, Oromo and the ten.
    every = load_parallel(args.data, languages=(*LANGUAGES, "bam", "gaz"))
    used = {english for lang, _, english, _ in pairs if lang == "swh"}
    running = {every.english[e] for e, s in zip(every.eid, every.source) if s in "SVHYZ"} - used
    running = sorted(s for s in running if 40 <= len(s) <= 260 and s[-1] in ".!?" and normalise(s) not in held)
    more = [s for s in passage_sentences(args.data, ("selqa", "afriqa", "medquad"), 40000) if normalise(s) not in held | searched]
    rng.shuffle(running)
    (out / "sentences.txt").write_text("\n".join(running + more), encoding="utf8")
    news = sorted({s for s in news_sentences(args.news) if normalise(s) not in foreign["swh"]}) if args.news else []
    (out / "swahili.txt").write_text("\n".join(news), encoding="utf8")
    print("pairs", len(pairs), "English tasks", len(tasks), "English sentences", len(running), "+", len(more), "Swahili sentences", len(news))


if __name__ == "__main__":
    main()
