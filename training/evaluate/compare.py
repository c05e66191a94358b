"""Print the figures of docs/models.md, all through a running service on this machine:

    python training/evaluate/compare.py --data EVAL --service http://127.0.0.1:8080 --key KEY [--only retrieval,speed]

--json FILE keeps the figures. With the same file, a later run adds to it."""
import argparse
import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from backends import Service
from retrieval import SETS, retrieval_table
from speed import TASKS, speed_table

OURS = "baobab/embed-multilingual"
# What the authors of a model put before a query.
EMBEDDERS = {
    OURS: "",
    "sentence-transformers/all-minilm-l6-v2": "",
    "baai/bge-small-en-v1.5": "Represent this sentence for searching relevant passages: ",
    "thenlper/gte-small": "",
}


def main():
    args = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    args.add_argument("--data", required=True, help="directory of the held-out sets")
    args.add_argument("--service", required=True)
    args.add_argument("--key")
    args.add_argument("--only", default="retrieval,speed")
    args.add_argument("--sets", default=",".join(SETS))
    args.add_argument("--embedders", default=",".join(EMBEDDERS))
    args.add_argument("--tasks", default=",".join(TASKS), help="whose speed to measure")
    args.add_argument("--json")
    args = args.parse_args()
    report = json.loads(Path(args.json).read_text()) if args.json and Path(args.json).exists() else {}
    parts = args.only.split(",")
    if "retrieval" in parts:
        embedders = {m: (Service(args.service, m, args.key).embed, EMBEDDERS[m]) for m in args.embedders.split(",")}
        retrieval_table(embedders, args.data, args.sets.split(","), report)
    if "speed" in parts:
        speed_table(args.service, args.key, args.tasks.split(","), report)
    if args.json:
        Path(args.json).write_text(json.dumps(report, indent=1))


if __name__ == "__main__":
    main()
