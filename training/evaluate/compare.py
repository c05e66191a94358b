"""Measure embedding models beside each other, all through a running service on this machine:

    python training/evaluate/compare.py --data EVAL --service http://127.0.0.1:8080 --key KEY --json figures.json --cache /tmp/vectors

--only flores,ntrex,sts,retrieval,speed picks parts; --models limits them. With the same --json, a later run adds to the file. --cache keeps
vectors, so that a model is asked once for each text; --minutes stops a long run, and the same command goes on where it stopped.
card.py writes the tables of the model cards and docs/models.md from the file."""
import argparse
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import figures
import sets
from backends import Service
from cache import Kept, OutOfTime
from retrieval import BM25, SETS, retrieval_table
from sentences import STSB, bitext_table, flores_languages, sts_table
from speed import TASKS, speed_table

OURS = "baobab/embed-multilingual"
OTHERS = ["sentence-transformers/all-minilm-l6-v2", "baai/bge-small-en-v1.5", "intfloat/e5-small-v2", "thenlper/gte-small"]
# What the authors of a model put before a query, before a passage, and before both sentences of a pair.
PREFIXES = {
    "baai/bge-small-en-v1.5": ("Represent this sentence for searching relevant passages: ", "", ""),
    "intfloat/e5-small-v2": ("query: ", "passage: ", "query: "),
}


def versions_of_ours(service, key):
    found = Service(service, OURS, key).get(f"/v1/models/{OURS}")["versions"]
    return [f"{OURS}@{v['version']}" for v in found]


def main():
    args = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    args.add_argument("--data", required=True, help="directory of the held-out sets")
    args.add_argument("--service", required=True)
    args.add_argument("--key")
    args.add_argument("--only", default="flores,ntrex,sts,retrieval,speed")
    args.add_argument("--sets", default=",".join(SETS))
    args.add_argument("--models", help="by default every version of ours, the others of the catalog, and BM25")
    args.add_argument("--languages", help="of FLORES-200; all unless given")
    args.add_argument("--tasks", default=",".join(TASKS), help="whose speed to measure")
    args.add_argument("--json")
    args.add_argument("--cache", help="directory for vectors")
    args.add_argument("--minutes", type=float, help="stop after so long")
    args = args.parse_args()
    report = figures.read(args.json)
    deadline = time.monotonic() + 60 * args.minutes if args.minutes else None
    parts = args.only.split(",")
    models = args.models.split(",") if args.models else [BM25, *versions_of_ours(args.service, args.key), *OTHERS]

    def save():
        figures.write(args.json, report)

    try:
        for model in models:
            embed = None if model == BM25 else Kept(Service(args.service, model, args.key), args.cache, deadline).embed
            query, passage, sentence = PREFIXES.get(model, ("", "", ""))
            of_model = report.setdefault(model, {})
            print(f"\n{model}", flush=True)
            if embed and "sts" in parts:
                # The others know English only.
                sts_table(embed, args.data, of_model, STSB if model.startswith(OURS) else ["en"], sentence)
                save()
            if "retrieval" in parts:
                retrieval_table(embed, query, passage, args.data, args.sets.split(","), of_model, save)
            if "flores" in parts and model.startswith(OURS):
                corpus = sets.flores(args.data)
                languages = args.languages.split(",") if args.languages else flores_languages(corpus)
                bitext_table(embed, corpus, languages, "FLORES-200 devtest", of_model)
                save()
            if "ntrex" in parts and model.startswith(OURS):
                corpus = sets.ntrex(args.data)
                bitext_table(embed, corpus, [l for l in corpus if not l.startswith("eng")], "NTREX-128", of_model)
                save()
        if "speed" in parts:
            speed_table(args.service, args.key, args.tasks.split(","), report)
    except OutOfTime:
        sys.exit("Stopped after --minutes. Run the same command again to go on.")
    finally:
        save()


if __name__ == "__main__":
    main()
