"""The small fixed sample of the held-out sets, and what the tests expect of it."""
import base64
import json
import math
import re
from pathlib import Path

import numpy as np

from metrics import bitext, ndcg, spearman, unit

TEXT = "Mtoto anakunywa maji."
# How far below the measured figure a test fails: about two sentences in sixty.
ROOM = {"bitext": 0.034, "bitext_64": 0.045, "sts": 0.02}


def sample_table(embed, rerank, path, report):
    sample = json.loads(Path(path).read_text(encoding="utf8"))
    found = {}
    if embed:
        base = embed(sample["flores"]["eng"])
        vectors = {l: embed(t) for l, t in sample["flores"].items() if l != "eng"}
        found["bitext"] = {l: round(bitext(v, base), 4) for l, v in vectors.items()}
        found["bitext_64"] = {l: round(bitext(v, base, 64), 4) for l, v in vectors.items()}
        found["sts"] = {l: round(spearman((embed(s["first"]) * embed(s["second"])).sum(1), s["score"]), 4) for l, s in sample["stsb"].items()}
    if rerank:
        order = lambda r: np.argsort(-rerank(r["query"], r["passages"]), kind="stable")
        found["rerank"] = round(float(np.mean([ndcg(order(r), {int(k): v for k, v in r["relevant"].items()}) for r in sample["rerank"]])), 4)
    print(json.dumps(found, indent=1))
    report["sample"] = found


def expect(embed, name, measured, path):
    """Adds the version that `name` pins to the file of the tests: figures, floors, and a vector by which it is known again."""
    version = name.split("@")[1]
    expected = json.loads(Path(path).read_text(encoding="utf8"))
    measured = {part: measured[part] for part in ROOM}
    floor = {part: {l: math.floor(100 * (x - ROOM[part])) / 100 for l, x in rows.items()} for part, rows in measured.items()}
    vector = unit(embed([TEXT])[0, :64]).astype("<f4")
    known = {"text": TEXT, "dimensions": 64, "base64": base64.b64encode(vector.tobytes()).decode()}
    expected["versions"][version] = {"measured": measured, "floor": floor, "vector": known}
    text = json.dumps(expected, indent=2, ensure_ascii=False)
    # A line for each part.
    text = re.sub(r"\{\s+([^{}]*?)\s+\}", lambda found: "{ " + re.sub(r"\s*\n\s*", " ", found[1]) + " }", text)
    Path(path).write_text(text + "\n", encoding="utf8")
