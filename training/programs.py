"""Parallel texts from the interfaces and pages of translated programs, for African languages with hardly any modern text in the other sources.

Many of these translations were made by a program. README.md names each project and its licence."""
import csv
import html
import json
import re
from pathlib import Path

import polib

from documentation import aligned, plain

LANGUAGES = {
    "af": "afr", "ak": "twi", "am": "amh", "bm": "bam", "ee": "ewe", "ha": "hau", "ig": "ibo", "lg": "lug", "ln": "lin", "mg": "plt", "nso": "nso", "ny": "nya",
    "om": "gaz", "rn": "run", "rw": "kin", "sn": "sna", "so": "som", "ss": "ssw", "st": "sot", "sw": "swh", "ti": "tir", "tn": "tsn", "ts": "tso", "tw": "twi",
    "wo": "wol", "xh": "xho", "yo": "yor", "zu": "zul",
}
# Quotations from Bibles with other licences.
QUOTED = re.compile(r"^/epochs/\d+/(q|cite)$|^/core/\d+/v(ref|text)$|verse|scripture", re.I)
# A sentence, and a shorter text of an interface.
SENTENCE, SHORTEST, LONGEST = 30, 4, 420


def flat(value, path=""):
    """Every text of a JSON file by its path; notes on other texts begin with @."""
    if isinstance(value, dict):
        for key, item in value.items():
            if not key.startswith("@"):
                yield from flat(item, f"{path}/{key}")
    elif isinstance(value, list):
        for i, item in enumerate(value):
            yield from flat(item, f"{path}/{i}")
    elif isinstance(value, str) and not QUOTED.search(path):
        yield path, value


def read(path):
    """{key: text} of a file with the texts of an interface."""
    text = path.read_text(encoding="utf8", errors="replace")
    if path.suffix in (".json", ".arb"):
        try:
            return dict(flat(json.loads(text.lstrip("\ufeff"))))
        except json.JSONDecodeError:
            return {}
    if path.suffix == ".xml":
        found = re.findall(r'<string name="([^"]+)"[^>]*>(.*?)</string>', text, re.S)
        return {k: re.sub(r"\\([\"'])", r"\1", html.unescape(re.sub(r"<[^>]+>", " ", v))).replace("\\n", " ") for k, v in found}
    return dict(line.split("=", 1) for line in text.splitlines() if "=" in line and not line.startswith("#"))  # properties


def english_of(path, code, root):
    """Where the English side of a file may lie."""
    yield path.with_name(re.sub(rf"[._-]{code}(?=\.\w+$|$)", "", path.name))
    android = re.sub(rf"/values-{code}(-r[A-Z]+)?/", "/values/", str(path))
    yield Path(android)
    for name in ("en", "en-US", "en_US"):
        yield Path(re.sub(rf"(?<=[/._-]){code}(?=[/._-]|$)", name, str(path)))
    if path.name.startswith("README"):
        yield root / "README.md"


def gettext(path):
    try:
        return [(e.msgid, e.msgstr) for e in polib.pofile(str(path)) if e.msgstr and not e.fuzzy and not e.obsolete]
    except (OSError, UnicodeDecodeError):
        return []  # a file with a mistake in it


def reviews(root):
    """NollySenti: the reviews of a language are translations of the English ones, row by row."""
    for code in ("yo", "ha", "ig"):
        for part in ("train", "dev", "test"):
            rows = [list(csv.reader(open(root / f"data/{name}/{part}.tsv", encoding="utf8", newline=""), delimiter="\t", quoting=csv.QUOTE_NONE)) for name in ("en", code)]
            # The file of a language ends earlier; as long as the ratings agree, so do the rows.
            for english, foreign in list(zip(*rows))[1:]:
                if len(english) == 2 == len(foreign) and english[1] == foreign[1]:
                    yield LANGUAGES[code], english[0], foreign[0]


def texts(root):
    """(language, English, foreign) of one project."""
    for path in sorted(p for p in root.rglob("*") if p.is_file()):
        where = "/" + str(path.relative_to(root))
        code = next((c for c in LANGUAGES if re.search(rf"[/._-]{c}(?:-r[A-Z]+)?(?:[/._-]|$)", where)), None)
        if not code:
            continue
        if path.suffix == ".po":
            yield from ((LANGUAGES[code], a, b) for a, b in gettext(path))
            continue
        english = next((p for p in english_of(path, code, root) if p != path and p.is_file()), None)
        if not english:
            continue
        if path.suffix == ".md":
            both = (p.read_text(encoding="utf8", errors="replace") for p in (english, path))
            yield from ((LANGUAGES[code], a, b) for a, b in aligned(*both))
        elif path.suffix in (".json", ".arb", ".xml") or path.name.startswith("messages"):
            a, b = read(english), read(path)
            yield from ((LANGUAGES[code], a[key], b[key]) for key in a if key in b)


def translated(english, foreign):
    """Whether a text is really in another language: parts left in English make pairs that teach nothing."""
    words = set(re.findall(r"\w+", english.casefold()))
    own = re.findall(r"\w+", foreign.casefold())
    return bool(own) and sum(w in words for w in own) <= 0.34 * len(own)


def programs(root):
    """{(letter, language): [(English, foreign)]}: sentences as R, shorter texts as i."""
    found = {}
    for project in sorted(p for p in root.iterdir() if p.is_dir()):
        for lang, a, b in [*texts(project), *(reviews(project) if project.name == "NollySenti" else ())]:
            a, b = plain(a), plain(b)
            if not SHORTEST <= len(a) <= LONGEST or not 0.4 < len(b) / len(a) < 2.5 or not translated(a, b):
                continue
            if sum(c.isalpha() or c == " " for c in a) < 0.75 * len(a) or re.search(r"https?:|[<>=\\]|::|\w_\w", a + b):
                continue
            found.setdefault(("R" if len(a) >= SENTENCE else "i", lang), set()).add((a, b))
    return {key: sorted(pairs) for key, pairs in found.items()}
