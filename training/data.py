"""The parallel sentences: reading, cleaning, splitting, weighting and augmenting them.

Layout of the data directory (see README.md for where each part comes from):

    parallel/en.txt        unique English sentences, one per line, line number = id
    parallel/<lang>.tsv    English id, source letter, sentence in <lang>
    parallel/counts.tsv    language, name, group (af, afmin, major, other, con), pairs, ...
    ranking/*.jsonl        {"lang", "query", "pos", "group"[, "neg"]}
    ranking/stsb_train/    graded sentence pairs, one CSV per language, rows aligned across languages
    eval/                  held-out sets; only training/evaluate reads them
"""
import csv
import html
import json
import random
import re
from collections import defaultdict
from pathlib import Path

# Licence of these sources would bind the weights, so they are left out.
EXCLUDED = set("MO")
# Picture-book pages: a whole source kept back to choose checkpoints on.
VALIDATION = "K"
# Running text counts for more than interface strings and dictionary entries.
SOURCE_WEIGHT = {
    "S": 4.0, "H": 4.0, "V": 3.0, "Y": 3.0, "Z": 2.5, "U": 2.0, "Q": 2.0, "E": 2.0, "T": 1.2, "B": 1.0, "P": 1.0,
    "D": 1.0, "C": 0.8, "A": 0.5, "F": 0.5, "L": 0.5, "W": 0.5, "N": 0.35, "G": 0.35,
}
GROUP_WEIGHT = {"af": 3.0, "afmin": 0.6, "major": 1.3, "other": 0.3, "con": 0.02}
# Languages spoken across borders and used as a second language on the continent, and those people test first.
LANGUAGE_WEIGHT = {
    "fra": 2.7, "arb": 3.0, "deu": 2.4, "por": 1.7, "spa": 1.7, "ita": 1.3, "nld": 1.3, "rus": 1.3, "cmn": 1.0,
    "ber": 0.3, "kab": 0.7, "nus": 0.5, "dik": 0.5, "knc": 0.6, "fuv": 0.6, "arz": 0.7, "ary": 0.7, "nde": 0.8, "nqo": 0.4, "zgh": 0.4, "gux": 0.3, "pcm": 0.5, "nbl": 0.8, "aar": 0.5,
    "amh": 1.5, "hau": 1.2, "yor": 1.4, "ibo": 1.6, "som": 1.4, "swh": 1.0, "zul": 1.1, "xho": 1.2, "kin": 1.3, "nya": 1.6,
    "plt": 1.6, "fon": 1.2, "wol": 1.2, "run": 1.2, "sna": 1.1,
}
STSB_LANGUAGES = {
    "en": "eng", "fr": "fra", "de": "deu", "es": "spa", "it": "ita", "ja": "jpn",
    "nl": "nld", "pl": "pol", "pt": "por", "ru": "rus", "zh": "cmn",
}

_TAG = re.compile(r"<[^<>]{0,200}>")
_VARIABLE = re.compile(r"\{\s*\$?[\w.\-|:() ]*\s*\}|%(?:\d+\$)?[sdif@]|%[A-Za-z_]+%|\$\w+\$|&brand\w*;|~\w+|\\n|\$\d")
_SPACE = re.compile(r"\s+")


def clean(text):
    """Interface strings carry markup and variables that say nothing about meaning."""
    if "&" in text:
        text = html.unescape(text)
    if "<" in text:
        text = _TAG.sub(" ", text)
    if any(c in text for c in "{%$~\\&"):
        text = _VARIABLE.sub(" ", text)
    return _SPACE.sub(" ", text).strip()


def lines(path):
    with open(path, encoding="utf8", newline="\n") as f:
        return [line.rstrip("\n") for line in f]


class Parallel:
    """English sentences and their translations, as parallel columns."""

    def __init__(self):
        self.english = []          # English sentence by id
        self.langs = []            # language codes
        self.group = {}            # language code -> group
        self.text, self.eid, self.lang, self.source = [], [], [], []
        self.validation = defaultdict(list)  # language -> [(English, foreign)]

    def add(self, lang, eid, source, text):
        self.text.append(text)
        self.eid.append(eid)
        self.lang.append(lang)
        self.source.append(source)


def load_parallel(root, min_rows=30):
    root = Path(root)
    data = Parallel()
    data.english = [clean(s) for s in lines(root / "parallel/en.txt")]
    data.group = {r[0]: r[2] for r in (line.split("\t") for line in lines(root / "parallel/counts.tsv")[1:])}
    held = set()
    tables = {}
    for path in sorted((root / "parallel").glob("*.tsv")):
        if path.stem == "counts":
            continue
        rows = []
        for line in lines(path):
            part = line.split("\t", 2)
            if len(part) != 3 or part[1] in EXCLUDED:
                continue
            rows.append((int(part[0]), part[1], part[2]))
        tables[path.stem] = rows
        held.update(e for e, s, _ in rows if s == VALIDATION)
    for lang, rows in tables.items():
        kept = []
        for eid, source, raw in rows:
            text, english = clean(raw), data.english[eid]
            if not text or not english:
                continue
            if source == VALIDATION:
                data.validation[lang].append((english, text))
                continue
            if eid in held:  # the English side of a held-back pair is never trained on
                continue
            a, b = len(english), len(text)
            if text.casefold() == english.casefold() and a > 12:
                continue  # left untranslated
            if a + b > 60 and not 0.12 < b / a < 5:
                continue  # not a translation of the whole
            kept.append((eid, source, text))
        if len(kept) < min_rows:
            continue
        index = len(data.langs)
        data.langs.append(lang)
        for eid, source, text in kept:
            data.add(index, eid, source, text)
    return data


def load_stsb(root):
    """Graded pairs: {language: ([first], [second])} and the grades, rows aligned across languages."""
    texts, grades = {}, None
    for path in sorted((Path(root) / "ranking/stsb_train").glob("*.csv")):
        with open(path, encoding="utf8") as f:
            rows = [r for r in csv.reader(f) if len(r) == 3]
        score = [float(r[2]) for r in rows]
        if grades is None:
            grades = score
        assert score == grades, path
        texts[path.stem] = ([r[0] for r in rows], [r[1] for r in rows])
    return texts, grades


def add_stsb_translations(data, texts):
    """The graded pairs were translated row by row, so they are parallel sentences too (letter E)."""
    first = len(data.english)
    english = texts["en"][0] + texts["en"][1]
    data.english += english
    for short, code in STSB_LANGUAGES.items():
        if short == "en" or short not in texts or code not in data.langs:
            continue
        index = data.langs.index(code)
        for k, text in enumerate(texts[short][0] + texts[short][1]):
            data.add(index, first + k, "E", text)


_WORD = re.compile(r"[A-Za-z']+|[^A-Za-z']+")


def _stems(word):
    yield word
    if word.endswith("ies"):
        yield word[:-3] + "y"
    for end in ("s", "es", "ed", "ing", "d", "ly", "'s"):
        if word.endswith(end) and len(word) > len(end) + 2:
            yield word[: -len(end)]
    if word.endswith("ing") or word.endswith("ed"):
        yield word.removesuffix("ing").removesuffix("ed") + "e"


def add_dictionary_sentences(data, per_language=6000, seed=1):
    """Word-for-word sentences (letter D) for African languages that have a lexicon but little running text.

    English running text is rewritten with the lexicon; words it lacks stay English. Word order and grammar
    are wrong, the words and what they stand beside are right, which is what these languages lack most."""
    rng = random.Random(seed)
    running = sorted({e for e, s, t in zip(data.eid, data.source, data.text) if s in "SVHYZE" and 40 < len(data.english[e]) < 220})
    lexicon = defaultdict(lambda: defaultdict(list))
    plain = defaultdict(int)
    for eid, lang, source, text in zip(data.eid, data.lang, data.source, data.text):
        if data.group.get(data.langs[lang]) != "af":
            continue
        if source in "GN" or (source == "V" and len(text) < 30):
            english = data.english[eid].casefold().removeprefix("to ").removeprefix("the ")
            if " " not in english and len(text) < 40:
                lexicon[lang][english].append(text)
        elif source in "SVHYZBT" and len(text) > 30:
            plain[lang] += 1
    made = 0
    for lang, words in lexicon.items():
        if len(words) < 1000:
            continue
        count = per_language if plain[lang] < 12000 else per_language // 3
        for eid in rng.sample(running, min(count, len(running))):
            out, hits, total = [], 0, 0
            for piece in _WORD.findall(data.english[eid]):
                if piece[0].isalpha():
                    total += 1
                    entry = next((words[s] for s in _stems(piece.casefold()) if s in words), None)
                    if entry:
                        hits += 1
                        piece = rng.choice(entry)
                out.append(piece)
            if hits >= 4 and hits / total > 0.4:
                data.add(lang, eid, "D", "".join(out))
                made += 1
    return made


def pair_weights(data):
    """Sampling weight of each pair: by source inside a language, then by language."""
    import numpy as np

    lang = np.asarray(data.lang)
    weight = np.array([SOURCE_WEIGHT.get(s, 0.5) for s in data.source])
    length = np.array([min(len(t), 160) for t in data.text], dtype=float)
    weight *= np.sqrt(np.maximum(length, 6) / 60)
    total = np.bincount(lang, weights=weight, minlength=len(data.langs))
    target = np.array([
        total[i] ** 0.5 * GROUP_WEIGHT.get(data.group.get(l, "other"), 0.3) * LANGUAGE_WEIGHT.get(l, 1.0)
        for i, l in enumerate(data.langs)
    ])
    weight *= (target / total)[lang]
    return weight / weight.sum()


def load_ranking(root, languages=("en",), names=None):
    rows = []
    for path in sorted((Path(root) / "ranking").glob("*.jsonl")):
        if names and path.stem not in names:
            continue
        with open(path, encoding="utf8") as f:
            for line in f:
                row = json.loads(line)
                if languages is None or row["lang"] in languages:
                    row["file"] = path.stem
                    rows.append(row)
    return rows
