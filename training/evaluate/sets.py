"""The held-out sets, read as they are published. Nothing here is ever trained on."""
import csv
import json
from pathlib import Path

AFRICAN = ("swh hau yor ibo zul xho amh som kin lug lin sna afr sot tsn nya gaz tir wol bem ewe twi plt run tso nso ssw luo kab fon bam").split()
LARGER = "fra por cmn_Hans spa ind hin deu ara jpn rus urd vie ben tur kor tha".split()


def _lines(path):
    return Path(path).read_text(encoding="utf8").rstrip("\n").split("\n")


def _rows(path):
    return [json.loads(line) for line in _lines(path)]


def flores(root):
    """{language: 1012 sentences}, English under "eng"."""
    return {p.stem: _lines(p) for p in sorted((Path(root) / "flores200_devtest").glob("*.txt"))}


def ntrex(root):
    return {p.stem: _lines(p) for p in sorted((Path(root) / "ntrex128").glob("*.txt"))}


def stsb(root, language):
    with open(Path(root) / f"stsb/{language}-test.csv", encoding="utf8") as f:
        rows = [r for r in csv.reader(f) if len(r) == 3]
    return [r[0] for r in rows], [r[1] for r in rows], [float(r[2]) for r in rows]


def retrieval(root, name):
    """Queries, passages and which passages answer which query: ([text], [text], [{passage index: gain}])."""
    root = Path(root)
    if name in ("afriqa", "afriqa-translated"):
        asked = "query" if name == "afriqa" else "query_translated"
        rows, passages = _rows(root / "afriqa/queries_test.jsonl"), _rows(root / "afriqa/passages_test.jsonl")
        place = {r["id"]: i for i, r in enumerate(passages)}
        return [r[asked] for r in rows], [r["text"] for r in passages], [{place[r["rel"]]: 1} for r in rows]
    if name == "nq":
        rows = _rows(root / "nq_qed_dev/pairs.jsonl")
        texts = [f"{r['title']}. {r['text']}" for r in rows]
        unique = sorted(set(texts))
        place = {t: i for i, t in enumerate(unique)}
        return [r["query"] for r in rows], unique, [{place[t]: 1} for t in texts]
    folder, queries = {"scifact": ("scifact", "queries_dev"), "cranfield": ("cranfield", "queries")}[name]
    corpus = _rows(root / folder / "corpus.jsonl")
    place = {r["id"]: i for i, r in enumerate(corpus)}
    title = lambda r: "" if r["text"].startswith(r["title"]) else r["title"].rstrip(". ") + ". "
    asked, wanted = [], []
    for r in _rows(root / folder / f"{queries}.jsonl"):
        rel = r["rel"] if isinstance(r["rel"], dict) else {i: 1 for i in r["rel"]}
        rel = {place[i]: g for i, g in rel.items() if i in place and g > 0}
        if rel:
            asked.append(r["query"])
            wanted.append(rel)
    return asked, [title(r) + r["text"] for r in corpus], wanted


def afriqa_languages(root):
    """Of each query in AfriQA, in the order of retrieval()."""
    return [r["lang"] for r in _rows(Path(root) / "afriqa/queries_test.jsonl")]
