"""The parallel sentences: reading, cleaning, splitting, weighting and augmenting them.

Layout of the data directory (see README.md for where each part comes from):

    parallel/en.txt        unique English sentences, one per line, line number = id
    parallel/<lang>.tsv    English id, source letter, sentence in <lang>
    parallel/counts.tsv    language, name, group (af, afmin, major, other, con), pairs, ...
    ranking/*.jsonl        {"lang", "query", "pos", "group"[, "neg"]}
    ranking/stsb_train/    graded sentence pairs, one CSV per language, rows aligned across languages
    eval/                  held-out sets; only training/evaluate reads them, and heldout.py to keep them out
"""
import csv
import html
import json
import random
import re
from collections import defaultdict
from pathlib import Path

from lexicon import induced

# Licence of these sources would bind the weights, so they are left out.
EXCLUDED = set("MO")
# Picture-book pages and textbook sentences: whole sources kept back to choose checkpoints on.
VALIDATION = "KJ"
# The African languages of FLORES-200 that the model is measured by.
AFRICAN = (
    "swh hau yor ibo zul xho amh som kin lug lin sna afr sot tsn nya gaz tir wol bem ewe twi plt run tso nso ssw luo kab fon bam").split()
# Running text counts for more than interface strings and dictionary entries.
SOURCE_WEIGHT = {
    "S": 4.0, "H": 4.0, "V": 3.0, "Y": 3.0, "Z": 2.5, "U": 2.0, "Q": 2.0, "E": 2.0, "X": 2.0, "R": 1.5, "T": 1.2, "B": 1.0, "P": 1.0,
    "D": 1.0, "C": 0.8, "i": 0.5, "I": 0.5, "A": 0.5, "F": 0.5, "L": 0.5, "W": 0.5, "N": 0.35, "G": 0.35,
}
GROUP_WEIGHT = {"african": 3.0, "af": 1.0, "afmin": 0.4, "major": 1.0, "other": 0.1, "con": 0.0}
# The measured languages with little data weigh at least as much as one with this sum of source weights.
AFRICAN_FLOOR = 10000
# Fewer words are no lexicon. A measured language whose dictionaries have fewer gets one induced from its sentences.
LEXICONWORD_OR_GAPS = 800
# Word-for-word sentences make up at most this share of a language; more where hardly any running text is to be had.
DICTIONARY_SHARE, DICTIONARY_SHARE_BARE, BARE = 0.35, 0.6, 2000
# Languages spoken across borders and used as a second language on the continent, and those people test first.
LANGUAGE_WEIGHT = {
    "fra": 2.7, "arb": 3.0, "deu": 2.4, "por": 1.7, "spa": 1.7, "ita": 1.3, "nld": 1.3, "rus": 2.0, "cmn": 1.8, "ind": 1.6,
    "tha": 2.5, "kor": 2.0, "tur": 2.0, "ben": 2.0, "urd": 2.0, "vie": 2.0, "jpn": 2.0, "hin": 1.8,
    "ber": 0.3, "kab": 0.7, "nus": 0.5, "dik": 0.5, "knc": 0.6, "fuv": 0.6, "arz": 0.7, "ary": 0.7, "nde": 0.8, "nqo": 0.4, "zgh": 0.4, "gux": 0.3, "pcm": 0.5, "nbl": 0.8, "aar": 0.5,
    "amh": 1.7, "hau": 1.5, "yor": 2.6, "ibo": 1.6, "som": 2.2, "swh": 1.2, "zul": 1.1, "xho": 1.2, "kin": 1.3, "nya": 1.6,
    "plt": 1.6, "fon": 1.2, "wol": 1.2, "run": 1.2, "sna": 2.4,
}
# The files of queries with passages that are trained on, and how much a row of each counts.
QUERY_WEIGHT = {
    "afriqa": 8.0, "squad_multi": 2.0, "selqa": 2.0, "medquad": 2.0, "covid_faq": 2.0, "acl": 1.0, "mdn": 0.5, "mdn_intl": 0.5,
    "githubdocs": 0.5, "k8s": 0.5, "tldr": 0.5, "powershell": 0.5, "wordnet": 0.3, "intents": 0.3,
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

    def drop(self, english, foreign):
        """Without the pairs whose English side or foreign side (asked with its language) is unwanted. Returns how many went."""
        bad = [english(s) for s in self.english]
        rows = [i for i, e in enumerate(self.eid) if not bad[e] and not foreign(self.langs[self.lang[i]], self.text[i])]
        gone = len(self.eid) - len(rows)
        for name in ("text", "eid", "lang", "source"):
            column = getattr(self, name)
            setattr(self, name, [column[i] for i in rows])
        return gone


def load_parallel(root, min_rows=30, languages=None):
    """All languages, or some of them."""
    root = Path(root)
    data = Parallel()
    data.english = [clean(s) for s in lines(root / "parallel/en.txt")]
    data.group = {r[0]: r[2] for r in (line.split("\t") for line in lines(root / "parallel/counts.tsv")[1:])}
    held = set()
    tables = {}
    for path in sorted((root / "parallel").glob("*.tsv")):
        if path.stem == "counts" or (languages and path.stem not in languages):
            continue
        rows = []
        for line in lines(path):
            part = line.split("\t", 2)
            if len(part) != 3 or part[1] in EXCLUDED:
                continue
            rows.append((int(part[0]), part[1], part[2]))
        tables[path.stem] = rows
        held.update(e for e, s, _ in rows if s in VALIDATION)
    for lang, rows in tables.items():
        kept = []
        for eid, source, raw in rows:
            text, english = clean(raw), data.english[eid]
            if not text or not english:
                continue
            if source in VALIDATION:
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


WORD_OR_GAP = re.compile(r"[A-Za-z']+|[^A-Za-z']+")


def _stems(word):
    yield word
    if word.endswith("ies"):
        yield word[:-3] + "y"
    for end in ("s", "es", "ed", "ing", "d", "ly", "'s"):
        if word.endswith(end) and len(word) > len(end) + 2:
            yield word[: -len(end)]
    if word.endswith("ing") or word.endswith("ed"):
        yield word.removesuffix("ing").removesuffix("ed") + "e"


def passage_sentences(root, names, limit, seed=2):
    """Sentences of English passages, to show the words of a lexicon in many contexts."""
    found = set()
    for row in load_ranking(root, names=names):
        for part in re.split(r"(?<=[.!?])\s+", clean(row["pos"])):
            if 40 <= len(part) <= 220 and part[0].isupper() and part[-1] in ".!?":
                found.add(part)
    found = sorted(found)
    random.Random(seed).shuffle(found)
    return found[:limit]


def running_text(data, sources="SVHYZBTPXQ"):
    """Sentences of running text by language."""
    count = defaultdict(int)
    for lang, source, text in zip(data.lang, data.source, data.text):
        if source in sources and len(text) > 30:
            count[lang] += 1
    return count


def lexicons(data):
    """{language: {English word: [translations]}} of the languages with enough words, given or induced."""
    lexicon, defined = defaultdict(lambda: defaultdict(list)), defaultdict(set)
    for eid, lang, source, text in zip(data.eid, data.lang, data.source, data.text):
        if data.group.get(data.langs[lang]) == "af" and (source in "GNI" or (source == "V" and len(text) < 30)):
            english = data.english[eid].casefold().removeprefix("to ").removeprefix("the ")
            # WHO is not "who".
            acronym = len(english) > 1 and data.english[eid].isupper()
            if " " not in english and not acronym and len(text) < 40:
                lexicon[lang][english].append(text)
                # The names of CLDR (N) make a long list, but no sentence.
                if source in "GI":
                    defined[lang].add(english)
    for lang in (data.langs.index(l) for l in AFRICAN if l in data.langs):
        if len(defined[lang]) < LEXICONWORD_OR_GAPS:
            for english, translations in induced(data, lang).items():
                lexicon[lang][english] += translations
    return {lang: words for lang, words in lexicon.items() if len(words) >= LEXICONWORD_OR_GAPS}


def rewrite(parts, words, entry, rng):
    """The words and what is between them with most words replaced, how many were, and how many words there are. `entry` keeps what was looked up."""
    share = rng.uniform(0.6, 1)
    out, hits, total = [], 0, 0
    for part in parts:
        if part[0].isalpha():
            total += 1
            if part not in entry:
                entry[part] = next((words[s] for s in _stems(part.casefold()) if s in words), None)
            if entry[part] and rng.random() < share:
                hits += 1
                part = rng.choice(entry[part])
        out.append(part)
    return "".join(out), hits, total


def add_dictionary_sentences(data, more=(), most=25000, usual=6000, seed=1):
    """Word-for-word sentences (letter D) for African languages that have a lexicon, given or induced.

    English running text, and the sentences in `more`, are rewritten with the lexicon; words it lacks stay English, and so
    does a share that differs from sentence to sentence. Word order and grammar are wrong, the words and what they stand
    beside are right, which is what these languages lack most. Returns how many were made."""
    rng = random.Random(seed)
    ids = sorted({e for e, s in zip(data.eid, data.source) if s in "SVHYZET" and 40 < len(data.english[e]) < 220})
    have = set(data.english)
    pool = [(e, WORD_OR_GAP.findall(data.english[e])) for e in ids] + [(None, WORD_OR_GAP.findall(s)) for s in more if s not in have]
    modern, new, made = running_text(data, "SVHYZTXQ"), {}, 0
    for lang, words in lexicons(data).items():
        # A Bible alone lacks the words of today.
        count = most if modern[lang] < 12000 and data.langs[lang] in AFRICAN else usual
        entry = {}
        for at in rng.sample(range(len(pool)), len(pool)):
            eid, parts = pool[at]
            text, hits, total = rewrite(parts, words, entry, rng)
            if hits >= 4 and hits / total > 0.4:
                if eid is None:
                    eid = new.setdefault(at, len(data.english))
                    if eid == len(data.english):
                        data.english.append("".join(parts))
                data.add(lang, eid, "D", text)
                made += 1
                count -= 1
                if not count:
                    break
    return made


def pair_weights(data):
    """Sampling weight of each pair: by source inside a language, then by language."""
    import numpy as np

    lang = np.asarray(data.lang)
    weight = np.array([SOURCE_WEIGHT.get(s, 0.5) for s in data.source])
    length = np.array([min(len(t), 160) for t in data.text], dtype=float)
    weight *= np.sqrt(np.maximum(length, 6) / 60)
    made = np.array([s == "D" for s in data.source])
    plain = running_text(data)
    share = np.array([DICTIONARY_SHARE if plain[i] >= BARE else DICTIONARY_SHARE_BARE for i in range(len(data.langs))])
    of = lambda rows: np.bincount(lang[rows], weights=weight[rows], minlength=len(data.langs))
    weight[made] *= np.minimum(1, of(~made) * share / (1 - share) / np.maximum(of(made), 1e-9))[lang[made]]
    total = of(slice(None))
    kind = lambda l: "african" if l in AFRICAN else data.group.get(l, "other")
    target = np.array([
        max(total[i], AFRICAN_FLOOR if l in AFRICAN else 0) ** 0.5 * GROUP_WEIGHT[kind(l)] * LANGUAGE_WEIGHT.get(l, 1.0)
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
