"""What the held-out sets contain, only to keep it out of the training data."""
import csv
import json
import re
import unicodedata
from pathlib import Path

# Names of the FLORES and NTREX files where they differ from ours.
NAMES = {"plt": ("plt", "mlg"), "swh": ("swh", "swa"), "gaz": ("gaz", "orm"), "sna": ("sna", "sna-Latn"), "twi": ("twi", "aka")}


def normalise(text):
    return re.sub(r"[\W_]+", " ", unicodedata.normalize("NFC", text).casefold()).strip()


def _lines(path):
    return path.read_text(encoding="utf8").splitlines()


def english(root, earlier=True):
    """Normalised English sentences of FLORES, NTREX and the graded pairs; `earlier` adds STS 12 to 16, of which STS-B's own
    training rows are a part."""
    root = Path(root) / "eval"
    found = {normalise(s) for f in ("flores200_devtest", "ntrex128") for p in (root / f).glob("eng*.txt") for s in _lines(p)}
    for path in (root / "stsb").glob("en-*.csv"):
        with open(path, encoding="utf8") as f:
            found.update(normalise(s) for row in csv.reader(f) for s in row[:2])
    for line in _lines(root / "sts12_16.tsv") if earlier else ():
        found.update(map(normalise, line.split("\t")[3:5]))
    return found - {""}


def graded(root):
    """Normalised English pairs of STS-B dev and test, in both orders; a few are in STS-B train as well."""
    found = set()
    for path in (Path(root) / "eval/stsb").glob("en-*.csv"):
        with open(path, encoding="utf8") as f:
            pairs = [(normalise(row[0]), normalise(row[1])) for row in csv.reader(f)]
        found.update(pairs, ((b, a) for a, b in pairs))
    return found


def foreign(root, lang):
    """Normalised sentences of FLORES and NTREX in one language."""
    paths = [Path(root) / "eval" / f / f"{n}.txt" for f in ("flores200_devtest", "ntrex128") for n in NAMES.get(lang, (lang,))]
    return {normalise(s) for p in paths if p.exists() for s in _lines(p)} - {""}


def search(root):
    """Normalised queries and passages of the search sets."""
    root, found = Path(root) / "eval", set()
    for name in ("afriqa", "scifact", "cranfield", "nq_qed_dev", "pubmedqa"):
        for path in (root / name).glob("*.jsonl"):
            for row in map(json.loads, _lines(path)):
                found.update(normalise(row[k]) for k in ("query", "query_translated", "text") if row.get(k))
    return found - {""}
