"""The file of figures, which several scripts add to: a row of a table stands on one line."""
import json
from pathlib import Path

WIDTH = 150


def read(path):
    return json.loads(Path(path).read_text()) if path and Path(path).exists() else {}


def write(path, report):
    if path:
        Path(path).write_text(text_of(report) + "\n")


def text_of(value, indent=""):
    flat = json.dumps(value, sort_keys=True)
    if not isinstance(value, dict) or len(indent) + len(flat) <= WIDTH:
        return flat
    inner = indent + " "
    rows = (f"{inner}{json.dumps(key)}: {text_of(each, inner)}" for key, each in sorted(value.items()))
    return "{\n" + ",\n".join(rows) + f"\n{indent}}}"
