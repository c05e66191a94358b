"""Parallel paragraphs from translated documentation: Markdown pages, notebooks and gettext catalogs.

Larger languages have mostly short sentences in the other sources. A paragraph is taken when its place on both pages is certain:
under the same heading, among the same number of paragraphs of the same kinds; in a catalog, beside its original."""
import difflib
import json
import random
import re

import polib

LANGUAGES = {
    "ar": "arb", "bn": "ben", "de": "deu", "es": "spa", "es-419": "spa", "fr": "fra", "hi": "hin", "id": "ind", "it": "ita", "ja": "jpn", "ko": "kor",
    "pl": "pol", "br": "por", "pt-BR": "por", "pt-br": "por", "pt_BR": "por", "ru": "rus", "sw": "swh", "th": "tha", "tr": "tur", "uk": "ukr", "ur": "urd", "vi": "vie",
    "zh": "cmn", "zh-CN": "cmn", "zh-cn": "cmn", "zh_CN": "cmn",
}
SCRIPTS = {
    "arb": "\u0600-\u06ff", "urd": "\u0600-\u06ff", "ben": "\u0980-\u09ff", "hin": "\u0900-\u097f", "jpn": "\u3040-\u30ff\u4e00-\u9fff",
    "cmn": "\u4e00-\u9fff", "kor": "\uac00-\ud7af", "tha": "\u0e00-\u0e7f", "rus": "\u0400-\u04ff", "ukr": "\u0400-\u04ff",
}
SHORTEST, LONGEST, MOST = 30, 420, 5000
# Thai has little else.
MOST_OF = {"tha": 15000}
# Courses with every page under the same path in `translations/<language>`, translated by a program (co-op-translator).
LESSONS = (
    "AI-For-Beginners", "Data-Science-For-Beginners", "IoT-For-Beginners", "Web-Dev-For-Beginners", "ai-agents-for-beginners", "edgeai-for-beginners",
    "ML-For-Beginners", "generative-ai-for-beginners", "AZD-for-beginners", "Security-101", "Generative-AI-for-beginners-java", "Foundry-Local-Lab")

_FENCE = re.compile(r"^(```|~~~).*?^\1[^\n]*$", re.M | re.S)
_DROP = re.compile(r"<!--.*?-->|\{/\*.*?\*/\}|\{\{[<%].*?[%>]\}\}|\{#[^}]*\}|</?[A-Za-z][^>]*>|!\[[^\]]*\]\([^)]*\)|\[!\w+\]", re.S)
_LINK = re.compile(r"\[([^\[\]]*)\](?:\([^()]*\)|\[[^\]]*\])")
_ROLE = re.compile(r":[\w:.-]+:`[~!]?([^`<]*?)(?:\s*<[^`>]*>)?`")
_RST_LINK = re.compile(r"`([^`<]*?)\s*<[^`>]*>`__?")
_HEADING = re.compile(r"^(#{1,6})\s+(.*)$")
_ANCHOR = re.compile(r"<a name=\"([^\"]+)\"></a>")


def plain(text):
    """Without markup; code stays as words."""
    text = _ROLE.sub(r"\1", _DROP.sub(" ", text))
    text = _LINK.sub(r"\1", _RST_LINK.sub(r"\1", text))
    text = re.sub(r"^\s*(?:[-*+>]|\d+[.)]|:)\s+", "", text, flags=re.M)
    text = re.sub(r"\\\s|[*`|]|(?<!\w)_+|_+(?!\w)", " ", text)
    return " ".join(text.replace(" ,", ",").split())


def blocks(text):
    """[(kind, text)] of a Markdown page, with the key of a heading in the place of its text where it has one."""
    text = re.sub(r"\A---\n.*?\n---\n", "", text, flags=re.S)
    text = _FENCE.sub("\n\n\0code\n\n", text)
    text = re.sub(r"<!--.*?-->", "", text, flags=re.S)
    for part in re.split(r"\n\s*\n", text):
        part = part.strip("\n")
        if not part.strip():
            continue
        heading = _HEADING.match(part)
        if heading:
            key = re.search(r"\{/\*(.*?)\*/\}|\{#(.*?)\}", heading[2]) or _ANCHOR.search(heading[2])
            yield "h" + str(len(heading[1])) + (next(filter(None, key.groups())) if key else ""), heading[2]
        elif re.match(r"\s*[-*+]\s|\s*\d+[.)]\s", part):
            items = re.split(r"\n(?=\s*(?:[-*+]|\d+[.)])\s)", part)
            yield from (("item", item) for item in items)
        else:
            yield {"\0": "code", "<": "tag", "|": "table", ">": "quote", "{": "tag", "!": "image"}.get(part[0], "text"), part


def sections(page):
    """[(heading, [(kind, text)])]"""
    out = [("", [])]
    for kind, text in blocks(page):
        if kind[0] == "h" and kind[1:2].isdigit():
            out.append((kind, [("heading", text)]))
        else:
            out[-1][1].append((kind, text))
    return out


def aligned(english, foreign):
    a, b = sections(english), sections(foreign)
    match = difflib.SequenceMatcher(None, [s[0] for s in a], [s[0] for s in b], autojunk=False)
    for start_a, start_b, size in match.get_matching_blocks():
        for (_, x), (_, y) in zip(a[start_a:start_a + size], b[start_b:start_b + size]):
            if [kind for kind, _ in x] == [kind for kind, _ in y]:
                yield from ((s, t) for (kind, s), (_, t) in zip(x, y) if kind in ("text", "item", "quote"))


def sentences(text):
    return [s for s in re.split(r"(?<=[.!?])\s+|(?<=[。！？।۔])\s*", text) if s]


def kept(pairs, lang):
    """Pairs of running text in both languages, as plain text; long paragraphs by sentence where both sides have the same number."""
    script = SCRIPTS.get(lang)
    low, high = (0.2, 1.2) if lang in ("jpn", "cmn", "kor") else (0.5, 1.9)
    for a, b in pairs:
        a, b = plain(a), plain(b)
        parts = [(a, b)]
        if len(a) > LONGEST:
            one, other = sentences(a), sentences(b)
            parts = list(zip(one, other)) if len(one) == len(other) else []
        for a, b in parts:
            if not SHORTEST <= len(a) <= LONGEST or not low < len(b) / len(a) < high:
                continue
            if sum(c.isalpha() or c == " " for c in a) < 0.8 * len(a) or re.search(r"https?:|[{}<>=\\]|::", a + b):
                continue
            if script:
                if len(re.findall(f"[{script}]", b)) < 0.35 * len(b):
                    continue
            else:
                words = set(a.casefold().split())
                if sum(w in words for w in b.casefold().split()) > 0.4 * len(b.split()):
                    continue
            yield a, b


def anchored(page):
    """With the anchor before each heading that translated pages of Microsoft keep from the English one."""
    anchor = lambda m: f'{m[1]} <a name="{re.sub(r"[^a-z0-9 _-]", "", m[2].strip().lower()).replace(" ", "-")}"></a>{m[2]}'
    return re.sub(r"^(#{1,6})\s+(.*)$", anchor, page, flags=re.M)


def pages(english, foreign, prepare=lambda page: page):
    for path in sorted(foreign.rglob("*.md")):
        original = english / path.relative_to(foreign)
        if original.is_file():
            yield from aligned(prepare(original.read_text(encoding="utf8", errors="replace")), path.read_text(encoding="utf8", errors="replace"))


def talpco(root, lang):
    read = lambda code: dict(line.split("\t", 1) for line in (root / code / f"data_{code}.txt").read_text(encoding="utf8").splitlines() if "\t" in line)
    english, foreign = read("eng"), read(lang)
    return [(english[key], foreign[key]) for key in sorted(english.keys() & foreign.keys())]


def notebooks(english, foreign):
    for path in sorted(foreign.rglob("*.ipynb")):
        original = english / path.relative_to(foreign)
        if not original.is_file():
            continue
        cells = [{c["metadata"].get("id"): "".join(c["source"]) for c in json.loads(p.read_text(encoding="utf8"))["cells"] if c["cell_type"] == "markdown"}
                 for p in (original, path)]
        for key in cells[0].keys() & cells[1].keys():
            if key and cells[0][key] != cells[1][key]:
                yield from aligned(cells[0][key], cells[1][key])


def catalogs(folder):
    for path in sorted(folder.rglob("*.po")):
        try:
            entries = polib.pofile(str(path))
        except (OSError, UnicodeDecodeError):
            continue  # a file with a mistake in it
        yield from ((e.msgid, e.msgstr) for e in entries if e.msgstr and not e.fuzzy and not e.obsolete)


def documentation(root):
    """{language: [(English, foreign)]}, each at most MOST from one project."""
    projects = []
    for path in sorted((root / "reactjs").glob("*.react.dev")):
        projects.append((path.name.split(".")[0], lambda p=path: pages(root / "reactjs/react.dev/src/content", p / "src/content")))
    for path in sorted((root / "kubernetes-website/content").iterdir()):
        projects.append((path.name, lambda p=path: pages(root / "kubernetes-website/content/en", p)))
    site = root / "tensorflow-docs-l10n/site"
    for path in sorted(site.iterdir()):
        projects.append((path.name, lambda p=path: [*pages(site / "en-snapshot", p), *notebooks(site / "en-snapshot", p)]))
    for path in sorted((root / "godot-docs-l10n/sphinx/po").iterdir()):
        projects.append((path.name, lambda p=path: catalogs(p)))
    for path in sorted((root / "python-docs").iterdir()):
        projects.append((path.name, lambda p=path: catalogs(p)))
    for course in LESSONS:
        for path in sorted((root / "for-beginners" / course / "translations").iterdir()):
            projects.append((path.name, lambda c=course, p=path: pages(root / "for-beginners" / c, p)))
    for path in sorted((root / "dynamics-365").iterdir()):
        projects.append((path.name, lambda p=path: pages(root / "dynamics-365/en", p, anchored)))
    found, rng = {}, random.Random(0)
    for short, read in projects:
        lang = LANGUAGES.get(short)
        if lang:
            pairs = sorted(set(kept(read(), lang)))
            found.setdefault(lang, []).extend(rng.sample(pairs, min(MOST_OF.get(lang, MOST), len(pairs))))
    return {lang: pairs for lang, pairs in found.items() if pairs}
