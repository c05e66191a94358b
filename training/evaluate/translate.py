"""How well chat models translate between English and languages of FLORES-200, by chrF, through a running service:

    python training/evaluate/translate.py --data EVAL --service http://127.0.0.1:8080 --key KEY --json figures.json --cache answers.jsonl

The sentences are spread evenly over devtest. Two texts that translate nothing show what a low figure means: the source as it is, and the
translation of another sentence. --cache keeps the answers; --minutes stops a long run, and the same command goes on where it stopped."""
import argparse
import json
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import figures
import sets
from languages import NAMES
from metrics import chrf
from speed import Client

ASK = "Translate this {source} sentence into {target}. Answer with the translation only.\n\n{text}"
UNTRANSLATED, ANOTHER = "the source, untranslated", "the translation of another sentence"
# A bound for models that do not stop.
MOST_TOKENS = 160


class Answers:
    """Answers of chat models without sampling, kept in a file."""

    def __init__(self, client, file, deadline):
        self.client, self.file, self.deadline, self.known, self.lock = client, Path(file) if file else None, deadline, {}, threading.Lock()
        if self.file and self.file.exists():
            self.known = {(r["model"], r["prompt"]): r["answer"] for r in map(json.loads, self.file.read_text(encoding="utf8").splitlines())}

    def ask(self, model, prompt):
        if (model, prompt) not in self.known:
            if self.deadline and time.monotonic() > self.deadline:
                sys.exit("Stopped after --minutes. Run the same command again to go on.")
            body = {"model": model, "messages": [{"role": "user", "content": prompt}], "temperature": 0, "max_tokens": MOST_TOKENS}
            answer = self.client.post("/v1/chat/completions", body)["choices"][0]["message"]["content"].strip()
            self.known[model, prompt] = answer
            if self.file:
                with self.lock, self.file.open("a", encoding="utf8") as f:
                    f.write(json.dumps({"model": model, "prompt": prompt, "answer": answer}, ensure_ascii=False) + "\n")
        return self.known[model, prompt]


def main():
    args = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    args.add_argument("--data", required=True)
    args.add_argument("--service", required=True)
    args.add_argument("--key")
    args.add_argument("--models", default="baobab/chat-mini@2026-11-17,baobab/chat-mini@2026-11-18")
    args.add_argument("--languages", default="swh")
    args.add_argument("--sentences", type=int, default=100)
    args.add_argument("--json")
    args.add_argument("--cache")
    args.add_argument("--minutes", type=float)
    args.add_argument("--at-once", type=int, default=4)
    args = args.parse_args()
    answers = Answers(Client(args.service, args.key), args.cache, time.monotonic() + 60 * args.minutes if args.minutes else None)
    corpus = sets.flores(args.data)
    rows = [i * len(corpus["eng"]) // args.sentences for i in range(args.sentences)]
    report = figures.read(args.json)
    ways = [way for language in args.languages.split(",") for way in (("eng", language), (language, "eng"))]
    for source, target in ways:
        asked, wanted = ([corpus[l][i] for i in rows] for l in (source, target))
        name = lambda code: "English" if code == "eng" else NAMES[code][0]
        found = {UNTRANSLATED: asked, ANOTHER: wanted[1:] + wanted[:1]}
        for model in args.models.split(","):
            ask = lambda text: answers.ask(model, ASK.format(source=name(source), target=name(target), text=text))
            with ThreadPoolExecutor(args.at_once) as pool:
                found[model] = list(pool.map(ask, asked))
        for model, texts in found.items():
            score = chrf(texts, wanted)
            report.setdefault("chrF", {}).setdefault(model, {})[f"{source}-{target}"] = {"chrF": score, "sentences": len(rows)}
            print(f"{source}-{target} {model:45} chrF {score:.1f} over {len(rows)} sentences; first: {texts[0][:100]!r}", flush=True)
        figures.write(args.json, report)


if __name__ == "__main__":
    main()
