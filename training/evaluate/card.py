"""Write the tables of the model card, docs/models.md and the catalog from the figures that compare.py keeps:

    python training/evaluate/card.py [--figures training/evaluate/figures.json] [--check]

A table stands between `<!-- card.py: NAME -->` and `<!-- end -->`. --check changes nothing and fails if a file would change."""
import argparse
import json
import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import sets
from languages import AFRIQA, NAMES
from retrieval import BM25
from sentences import DIMENSIONS, STSB
from translate import ANOTHER, UNTRANSLATED

ROOT = Path(__file__).parents[2]
OURS = "baobab/embed-multilingual"
CHAT = "baobab/chat-mini"
CARD, CHAT_CARD, PAGE, CATALOG = (
    ROOT / p for p in ("models/embed-multilingual/README.md", "models/chat-mini/README.md", "docs/models.md", "catalog/baobab/embed-multilingual.yaml"))
LEVELS = [(85, "very good, 85 % or more"), (70, "good, 70 to 85 %"), (50, "fair, 50 to 70 %: show several results, not one"),
          (0, "weak, below 50 %: try it on your own texts first")]
SEARCH = {"nq": "NQ (1 355 questions, 1 343 passages)", "cranfield": "Cranfield (225, 1 400)", "scifact": "SciFact (300, 5 183)",
          "afriqa": "AfriQA (3 105, 2 924)", "afriqa-translated": "AfriQA, translated"}
NOTES = {BM25: "BM25, no stemming", "baai/bge-small-en-v1.5": "`baai/bge-small-en-v1.5`, with its query instruction",
         "intfloat/e5-small-v2": "`intfloat/e5-small-v2`, with its prefixes"}
RERANKED = {"nq": "NQ", "cranfield": "Cranfield", "scifact": "SciFact", "afriqa": "AfriQA", "afriqa-translated": "AfriQA, translated"}

# What the tables of speed and memory say beside the figures.
EMBEDDERS = [
    ("sentence-transformers/all-minilm-l6-v2", "", "English", "384", "Apache-2.0"),
    (f"{OURS}@2026-11-20", ", recommended", "English, 69 measured, [each with its figure](../models/embed-multilingual/README.md)", "384, 256, 128, 64", "Apache-2.0"),
    (f"{OURS}@2026-11-19", ", deprecated", "the same", "384, 256, 128, 64", "Apache-2.0"),
    ("baai/bge-small-en-v1.5", "", "English", "384", "MIT"),
    ("intfloat/e5-small-v2", "", "English", "384", "MIT"),
    ("thenlper/gte-small", " (32-bit)", "English", "384", "MIT"),
]
RERANKERS = [
    ("baobab/rerank-small", "", "English", "MIT", ", shared with `baai/bge-small-en-v1.5`"),
    ("baobab/rerank-multilingual@2026-11-20", ", recommended", f"those of `{OURS}`; tried in 13 as a reranker", "Apache-2.0", f", shared with `{OURS}@2026-11-20`"),
    ("baobab/rerank-mini@2026-11-20", "", "English and nine African languages measured", "Apache-2.0", ""),
]

# What a version was to reach, in percent; STS-B as a correlation. The first version's goals and their history are text of the card.
GOALS = {"2026-11-20": {"African languages": 70, "larger languages": 85, "swh": 95, "hau": 87, "zul": 85, "amh": 78, "yor": 70, "ibo": 60, "sna": 62,
                        "som": 65, "plt": 50, "STS-B en": 0.82}}


def table(head, rows):
    line = lambda cells: "| " + " | ".join(cells) + " |"
    return "\n".join([line(head), line(["---"] * len(head)), *map(line, rows)])


class Figures:
    def __init__(self, found):
        self.found = found
        self.versions = sorted((m.split("@")[1] for m in found if m.startswith(OURS + "@")), reverse=True)
        self.newest = self.versions[0]
        self.groups = {"African languages": sets.AFRICAN, "larger languages": sets.LARGER}
        self.groups["other African languages"] = [l for l in self.flores(self.newest) if l not in sets.AFRICAN + sets.LARGER]

    def flores(self, version):
        return self.found[f"{OURS}@{version}"]["FLORES-200 devtest"]

    def percent(self, version, language, dimensions=384):
        return round(100 * self.flores(version)[language][str(dimensions)], 1)

    def mean(self, version, languages, dimensions=384):
        return sum(100 * self.flores(version)[l][str(dimensions)] for l in languages) / len(languages)

    def best_first(self, languages):
        return sorted(languages, key=lambda l: -self.flores(self.newest)[l]["384"])

    def head(self):
        return [*(f"{v}" for v in self.versions), *(f"{self.newest}, {d} dimensions" for d in DIMENSIONS[1:])]

    def columns(self):
        return [*((v, 384) for v in self.versions), *((self.newest, d) for d in DIMENSIONS[1:])]

    def languages_table(self):
        parts = []
        for title, members in self.groups.items():
            mean = [f"**mean of the {len(members)}**", "", *(f"**{self.mean(v, members, d):.1f}**" for v, d in self.columns())]
            rows = [[NAMES[l][0], l, *(f"{self.percent(v, l, d):.1f}" for v, d in self.columns())] for l in self.best_first(members)]
            parts.append(f"### FLORES-200 devtest, 1012 candidates, {title}\n\n" + table(["language", "code", *self.head()], [mean, *rows]))
        return "\n\n".join(parts)

    def levels(self):
        rows, above = [], 101
        for least, name in LEVELS:
            found = [NAMES[l][0] for l in self.best_first(NAMES) if least <= self.percent(self.newest, l) < above]
            rows.append([name, ", ".join(found) + (" (and English, the other side of every pair)" if least == 85 else "")])
            above = least
        return table(["", "languages"], rows)

    def summary(self):
        share = lambda v: ", ".join(f"{self.mean(v, self.groups[g]):.1f} % for {n}" for g, n in (("African languages", "31 African languages"), ("larger languages", "16 larger ones")))
        return "\n".join(f"- `@{v}`: {share(v)}, on average" for v in self.versions)

    def goals(self):
        def reached(version, name):
            if name.startswith("STS-B "):
                return self.found[f"{OURS}@{version}"]["STS-B"][name.split()[1]]["384"]
            return self.mean(version, self.groups[name]) if name in self.groups else self.percent(version, name)

        shown = lambda x: f"{x:.3f}" if x < 1 else f"{x:.1f}"
        label = lambda name: f"mean of {len(self.groups[name])} {name}" if name in self.groups else NAMES[name][0] if name in NAMES else "STS-B English"
        parts = []
        for version in (v for v in self.versions if v in GOALS):
            rows = [[label(n), str(goal), *(shown(reached(v, n)) for v in self.versions)] for n, goal in GOALS[version].items()]
            parts.append(f"### Goals and results, version {version}\n\n" + table(["", "goal", *self.versions], rows))
        return "\n\n".join(parts)

    def sts(self):
        of = lambda v: self.found[f"{OURS}@{v}"]["STS-B"]
        return table(["language", *self.head()], [[l, *(f"{of(v)[l][str(d)]:.3f}" for v, d in self.columns())] for l in STSB])

    def ntrex(self):
        of = lambda v: self.found[f"{OURS}@{v}"].get("NTREX-128", {})
        first = {l: rows["384"] for v in reversed(self.versions) for l, rows in of(v).items()}
        cell = lambda l, v, d: f"{100 * of(v)[l][str(d)]:.1f}" if l in of(v) else "not measured"
        return table(["language", *self.head()], [[l, *(cell(l, v, d) for v, d in self.columns())] for l in sorted(first, key=lambda l: -first[l])])

    def speed(self, model):
        """Speed, memory and size on disk, as shown."""
        rows = self.found["speed"]
        row = rows[max(name for name in rows if name == model or name.startswith(model + "@"))]
        return f"{row['processor']:.2f}".removesuffix(".00"), f"{row['memory_mb']:.0f} MB", f"{row['disk_mb']:.0f} MB"

    def embedders(self):
        similar = lambda m: f"{row['en']['384']:.3f}" if (row := self.found.get(m, {}).get("STS-B")) else "not measured"
        rows = [[f"`{m}`{note}", languages, dimensions, similar(m), *self.speed(m), licence] for m, note, languages, dimensions, licence in EMBEDDERS]
        return table(["model", "languages", "dimensions", "STS-B English", "speed", "memory", "on disk", "licence"], rows)

    def rerankers(self):
        rows = [[f"`{m}`{note}", languages, *self.speed(m), licence] for m, note, languages, licence, _ in RERANKERS]
        for row, (*_, shared) in zip(rows, RERANKERS):
            row[4] += shared
        return table(["model", "languages", "speed", "memory", "on disk", "licence"], rows)

    def reranked(self):
        found = self.found["rerank"]
        before, shown = found["candidates"], lambda rows: [f"{rows[s]:.3f}" if s in rows else "not measured" for s in RERANKED]
        of = lambda key: {s: row[key] for s, row in before.items()}
        rows = [["as found", *shown(of("ndcg@10"))], *([f"`{m}`", *shown(found[m])] for m, *_ in RERANKERS if m in found), ["best order possible", *shown(of("best"))]]
        return table(["", *RERANKED.values()], rows)

    def translation(self):
        found, ways = self.found["chrF"], {"eng-swh": "English to Swahili", "swh-eng": "Swahili to English"}
        cell = lambda row, way: f"{row[way]['chrF']:.1f} ({row[way]['sentences']} sentences)" if way in row else "not measured"
        names = [*(m for m in found if m not in (UNTRANSLATED, ANOTHER)), UNTRANSLATED, ANOTHER]
        return table(["chrF", *ways.values()], [[f"`{m}`" if "/" in m else m, *(cell(found[m], way) for way in ways)] for m in names])

    def chat(self):
        """Both ways for every language that the newest version was measured in, best first."""
        found = {m.split("@")[1]: ways for m, ways in self.found["chrF"].items() if m.startswith(f"{CHAT}@")}
        newest, languages = max(found), {way.removeprefix("eng-") for way in found[max(found)] if way.startswith("eng-")}
        cell = lambda version, way: f"{found[version][way]['chrF']:.1f}" if way in found[version] else "not measured"
        best_first = sorted(languages, key=lambda l: -sum(found[newest][way]["chrF"] for way in (f"eng-{l}", f"{l}-eng")))
        rows = [[NAMES[l][0], *(cell(v, way) for way in (f"eng-{l}", f"{l}-eng") for v in sorted(found, reverse=True)), str(found[newest][f"eng-{l}"]["sentences"])] for l in best_first]
        return table(["", *(f"{way}, {v}" for way in ("from English", "into English") for v in sorted(found, reverse=True)), "sentences"], rows)

    def search_table(self, head, pick, models):
        """pick: for each column, the figures of a model to its nDCG@10 and recall@100; the best of each column is bold."""
        cells = {m: [[f"{x:.3f}" for x in get(self.found[m]["retrieval"]) or []] for get in pick] for m in models}
        # No best where a model was not measured.
        best = [[max(cells[m][c][i] for m in models) if all(cells[m][c] for m in models) else "" for i in (0, 1)] for c in range(len(pick))]
        shown = lambda c, pair: " / ".join(f"**{x}**" if x == best[c][i] else x for i, x in enumerate(pair)) or "not measured"
        rows = [[NOTES.get(m, f"`{m}`"), *(shown(c, pair) for c, pair in enumerate(cells[m]))] for m in models]
        return table(["", *head], rows)

    def models(self):
        """Ours last."""
        others = [m for m in self.found if not m.startswith(OURS) and self.found[m].get("retrieval")]
        return [*sorted(others, key=lambda m: (m != BM25, m)), *(f"{OURS}@{v}" for v in reversed(self.versions))]

    def search(self, models):
        return self.search_table(SEARCH.values(), [lambda r, s=s: s in r and (r[s]["ndcg@10"], r[s]["recall@100"]) for s in SEARCH], models)

    def afriqa(self):
        return self.search_table(AFRIQA.values(), [lambda r, l=l: "afriqa" in r and r["afriqa"]["languages"][l] for l in AFRIQA], self.models())

    def catalog(self):
        """Codes of the languages that are at least fair, best first within each group."""
        found = [NAMES[l][1] for members in self.groups.values() for l in self.best_first(members) if self.percent(self.newest, l) >= 50]
        lines, line = [], " "
        for code in ["en", *found]:
            if len(line) + len(code) > 130:
                lines, line = [*lines, line], " "
            line += f" {code},"
        return "languages: [\n" + "\n".join([*lines, line.rstrip(",")]) + "\n]"


def put(text, name, body):
    block = re.compile(rf"(<!-- card\.py: {name} -->\n).*?(<!-- end -->)", re.S)
    if not block.search(text):
        sys.exit(f"There is no place for '{name}'.")
    return block.sub(lambda found: found[1] + (body + "\n" if body else "") + found[2], text)


def main():
    args = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    args.add_argument("--figures", default=str(Path(__file__).parent / "figures.json"))
    args.add_argument("--check", action="store_true")
    args = args.parse_args()
    figures = Figures(json.loads(Path(args.figures).read_text()))
    ours = [m for m in figures.models() if m == BM25 or m.startswith(OURS)]
    written = {
        CARD: {"levels": figures.levels(), "languages": figures.languages_table(),
               "goals": figures.goals(), "sts": figures.sts(), "search": figures.search(ours), "afriqa": figures.afriqa(), "ntrex": figures.ntrex()},
        CHAT_CARD: {"chat": figures.chat()},
        PAGE: {"search": figures.search(figures.models()), "summary": figures.summary(),
               "embedders": figures.embedders(), "rerankers": figures.rerankers(), "reranked": figures.reranked(), "translation": figures.translation()},
    }
    changed = []
    for file, blocks in written.items():
        text = old = file.read_text(encoding="utf8")
        for name, body in blocks.items():
            text = put(text, name, body)
        changed += [(file, text)] if text != old else []
    old = CATALOG.read_text(encoding="utf8")
    text = re.sub(r"languages: \[.*?\]", lambda _: figures.catalog(), old, flags=re.S)
    changed += [(CATALOG, text)] if text != old else []
    for file, text in changed:
        print(file.relative_to(ROOT))
        if not args.check:
            file.write_text(text, encoding="utf8")
    if args.check and changed:
        sys.exit("These files are not up to date.")


if __name__ == "__main__":
    main()
