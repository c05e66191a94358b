"""Sentences: translations found among all sentences of a set, and graded similarity."""
import numpy as np

import sets
from metrics import bitext, spearman, unit

DIMENSIONS = (384, 256, 128, 64)
STSB = ("en", "fr", "de", "es", "it", "nl", "pl", "pt", "ru", "zh", "ja")


def percent(x):
    return f"{100 * x:5.1f}"


def flores_languages(corpus):
    """Those of the African mean first."""
    return [*sets.AFRICAN, *(l for l in corpus if l not in sets.AFRICAN and l != "eng")]


def bitext_table(embed, corpus, languages, title, report):
    base = embed(corpus["eng"])
    rows = report.setdefault(title, {})
    print(f"\n{title}: share of sentences whose translation is nearest among {len(base)}, mean of both directions, %")
    print(f"{'language':12}" + "".join(f"{d:>7}" for d in DIMENSIONS))
    for language in languages:
        v = embed(corpus[language])
        rows[language] = {str(d): bitext(v, base, d) for d in DIMENSIONS}
        print(f"{language:12}" + "".join(f"  {percent(x)}" for x in rows[language].values()), flush=True)
    for name, members in means(rows).items():
        row = [np.mean([rows[l][str(d)] for l in members]) for d in DIMENSIONS]
        print(f"{name:12}" + "".join(f"  {percent(x)}" for x in row), f"({len(members)} languages)", flush=True)


def means(rows):
    """{name: the languages of a mean}, of those that were measured."""
    groups = {"African mean": sets.AFRICAN, "larger": sets.LARGER, "all": list(rows)}
    return {name: found for name, members in groups.items() if len(found := [l for l in members if l in rows]) > 1}


def sts_table(embed, root, report, languages=STSB, prefix=""):
    rows = report.setdefault("STS-B", {})
    print("\nSTS-B test, Spearman correlation")
    for language in languages:
        a, b, gold = sets.stsb(root, language)
        x, y = (embed([prefix + s for s in side]) for side in (a, b))
        rows[language] = {str(d): spearman((unit(x[:, :d]) * unit(y[:, :d])).sum(1), gold) for d in DIMENSIONS}
        print(f"{language:12}" + "".join(f"  {v:.3f}" for v in rows[language].values()), flush=True)
