"""Word lexicons induced from parallel sentences, for languages that have no dictionary among the sources.

    python lexicon.py --data DATA [--languages swh,ewe] [--show 50]

prints how many entries each language gets, how many agree with the GATITOS lexicon (source G) where it has the same English word,
how often an entry's translation stands in the translated sentence on validation pages (source K), and a random sample.

IBM model 1 in both directions: how probable a word is as the translation of each word of the other sentence, estimated by
expectation maximisation. An entry must be probable in both directions and have been seen several times."""
import argparse
import random
import re
import unicodedata
from collections import Counter, defaultdict

import numpy as np

# Sentences that are translated as a whole; a dictionary or a list of names needs no induction.
RUNNING = "SVHYZBTPXQALFCWUE"
# Letters with the marks of tones and vowels that have no letter of their own with them.
_LETTERS = r"(?:[^\W\d_][\u0300-\u036f]*)+"
WORD = re.compile(rf"{_LETTERS}(?:['’ʼ-]{_LETTERS})*")
LONGEST, MOST_PAIRS, ROUNDS = 40, 40000, 6
LEAST_SEEN, LEAST_TOGETHER, LEAST_LIKELY, LEAST_BOTH, MOST_TRANSLATIONS = 4, 4, 0.1, 0.25, 3


def words(text):
    return WORD.findall(unicodedata.normalize("NFC", text).casefold())


def _numbered(sentences):
    """Each sentence as numbers of its different words; rare words are left out, and number 0 stands for "no word" in each."""
    count = Counter(w for s in sentences for w in set(s))
    names = [""] + sorted(w for w, n in count.items() if n >= LEAST_SEEN)
    number = {w: i for i, w in enumerate(names)}
    return [[0, *sorted({number[w] for w in s if w in number})] for s in sentences], names


def _likely(source, target, sentence, pair):
    """p(target word | source word) of each different pair. The arguments have an item for each two words of a pair of sentences."""
    owner = np.zeros(pair.max() + 1, np.int64)
    owner[pair] = source
    # The words of the source sentence compete for each word of the target sentence.
    _, rival = np.unique(sentence.astype(np.int64) * (target.max() + 1) + target, return_inverse=True)
    p = np.ones(len(owner))
    for _ in range(ROUNDS):
        share = p[pair]
        share /= np.bincount(rival, share)[rival]
        p = np.bincount(pair, share)
        p /= np.bincount(owner, p)[owner]
    return p


def induce(english, foreign):
    """{English word: [translations, best first]} from two lists of sentences."""
    rows = [(a, b) for a, b in zip(map(words, english), map(words, foreign)) if 0 < len(a) <= LONGEST and 0 < len(b) <= LONGEST]
    rows = random.Random(0).sample(rows, min(len(rows), MOST_PAIRS))
    if not rows:
        return {}
    (a, a_names), (b, b_names) = (_numbered(side) for side in zip(*rows))
    n, m = (np.array(list(map(len, side))) for side in (a, b))
    sentence = np.repeat(np.arange(len(rows)), n * m).astype(np.int32)
    e = np.concatenate([np.repeat(x, len(y)) for x, y in zip(a, b)]).astype(np.int32)
    f = np.concatenate([np.tile(y, len(x)) for x, y in zip(a, b)]).astype(np.int32)
    code, pair, together = np.unique(e.astype(np.int64) * len(b_names) + f, return_inverse=True, return_counts=True)
    there, back = _likely(e, f, sentence, pair), _likely(f, e, sentence, pair)
    e, f, both = code // len(b_names), code % len(b_names), np.sqrt(there * back)
    keep = (e > 0) & (f > 0) & (together >= LEAST_TOGETHER) & (there >= LEAST_LIKELY) & (back >= LEAST_LIKELY) & (both >= LEAST_BOTH)
    found = defaultdict(list)
    for i in sorted(np.nonzero(keep)[0], key=lambda i: -both[i]):
        word, translation = a_names[e[i]], b_names[f[i]]
        # Names and loans that stay as they are teach nothing.
        if word != translation and len(found[word]) < MOST_TRANSLATIONS:
            found[word].append(translation)
    return {word: translations for word, translations in found.items() if translations}


def induced(data, lang):
    """The lexicon of a language of `data` (see data.py), by its number."""
    rows = [(data.english[e], t) for e, l, s, t in zip(data.eid, data.lang, data.source, data.text) if l == lang and s in RUNNING]
    return induce(*zip(*rows)) if rows else {}


def agreement(lexicon, given):
    """Of the English words in both: how many, the share with a translation in common, and that with one that begins alike (inflected)."""
    shared = [w for w in lexicon if w in given]
    same = sum(bool(set(lexicon[w]) & given[w]) for w in shared)
    alike = lambda x, y: len(x) > 3 and len(y) > 3 and (x[:4] == y[:4] or x[-4:] == y[-4:])
    near = sum(any(x == y or alike(x, y) for x in lexicon[w] for y in given[w]) for w in shared)
    return len(shared), same / max(1, len(shared)), near / max(1, len(shared))


def hits(lexicon, pairs):
    """Words of English sentences that have an entry: their share, how often a translation stands in the other sentence, and in that of another page."""
    total = known = right = chance = 0
    for i, (english, foreign) in enumerate(pairs):
        there, elsewhere = set(words(foreign)), set(words(pairs[(i + 1) % len(pairs)][1]))
        for word in words(english):
            total += 1
            if word in lexicon:
                known += 1
                right += not there.isdisjoint(lexicon[word])
                chance += not elsewhere.isdisjoint(lexicon[word])
    return known / max(1, total), right / max(1, known), chance / max(1, known)


def main():
    import data as D

    args = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    args.add_argument("--data", required=True)
    args.add_argument("--languages", default=",".join(D.AFRICAN))
    args.add_argument("--show", type=int, default=0, help="entries to print of each language")
    args = args.parse_args()
    languages = args.languages.split(",")
    data = D.load_parallel(args.data, languages=languages)
    for lang in languages:
        if lang not in data.langs:
            continue
        number = data.langs.index(lang)
        lexicon = induced(data, number)
        given = defaultdict(set)
        for e, l, s, t in zip(data.eid, data.lang, data.source, data.text):
            if l == number and s == "G":
                given[data.english[e].casefold().removeprefix("to ").removeprefix("the ")].update(words(t))
        line = [lang, f"{len(lexicon)} entries"]
        if given:
            line.append("of {} also in GATITOS {:.0%} agree, {:.0%} with other endings or prefixes".format(*agreement(lexicon, given)))
        if data.validation.get(lang):
            line.append("K: {:.0%} of words known, right {:.0%}, by chance {:.0%}".format(*hits(lexicon, data.validation[lang])))
        print("; ".join(line), flush=True)
        for word in random.Random(7).sample(sorted(lexicon), min(args.show, len(lexicon))):
            print(f"  {word}: {', '.join(lexicon[word])}" + (f"   (G: {', '.join(sorted(given[word]))})" if word in given else ""))


if __name__ == "__main__":
    main()
