"""The conversations that chat-mini is trained on, as tokens, in batches of texts of about the same length."""
import random

import numpy as np

# The ten African languages of FLORES-200 with most text among the sources.
LANGUAGES = {
    "swh": "Swahili", "zul": "Zulu", "tsn": "Tswana", "plt": "Malagasy", "nya": "Chichewa", "hau": "Hausa", "yor": "Yoruba", "sna": "Shona",
    "ewe": "Ewe", "twi": "Twi"}
SYSTEM = "You are chat-mini, a small assistant by Baobab."
HEAD, TURN = "<|im_start|>system\n{system}<|im_end|>\n<|im_start|>user\n", "<|im_end|>\n<|im_start|>assistant\n"
TEMPLATE = (
    "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}{{ '<|im_start|>system\n" + SYSTEM + "<|im_end|>\n' }}{% endif %}"
    "{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}")
# How people ask for a translation. The first is how training/evaluate asks.
ASK = (
    "Translate this {source} sentence into {target}. Answer with the translation only.\n\n{text}",
    "Translate into {target}: {text}", "Translate to {target}:\n{text}", "{text}\n\nTranslate this into {target}.", "Say it in {target}: {text}",
    "How do you say this in {target}?\n\n{text}", "Translate the following text from {source} to {target}.\n\n{text}",
    "Translate from {source} to {target}: {text}", "{source} to {target}: {text}", "What is this in {target}? {text}")
ASK_WEIGHT = (4,) + (1,) * (len(ASK) - 1)
WHICH = ("Which language is this?\n\n{text}", "What language is this text in? {text}", "{text}\n\nWhich language is that?")
SOURCE_WEIGHT = {
    "Y": 4.0, "R": 3.0, "V": 3.0, "X": 2.0, "Z": 2.5, "S": 4.0, "H": 4.0, "U": 2.0, "Q": 2.0, "T": 1.2, "B": 0.5, "P": 0.5, "C": 0.8, "i": 0.5, "A": 0.4, "F": 0.4,
    "L": 0.4, "W": 0.5, "N": 0.1, "G": 0.2, "I": 0.4, "n": 1.5, "e": 1.0}
# Translated by the model itself, and whether they are read in English.
OWN = {"n": True, "e": False}
# Of the translations. The others share the rest by the square root of their weight.
SWAHILI_SHARE = 0.5
SHARES = {"translate": 0.80, "which": 0.015, "english": 0.125, "swahili": 0.06}
LONGEST, STEP = 448, 32
# The text to translate is learnt as text too, a little: it is how the model learns the language.
SOURCE_LOSS = 0.15


def pair_weights(langs, sources, lengths):
    weight = np.array([SOURCE_WEIGHT.get(s, 0.5) for s in sources]) * np.sqrt(np.clip(lengths, 6, 180) / 60)
    names = np.array(langs)
    total = {lang: weight[names == lang].sum() for lang in dict.fromkeys(langs)}
    rest = sum(v ** 0.5 for lang, v in total.items() if lang != "swh")
    share = {lang: SWAHILI_SHARE if lang == "swh" else (1 - SWAHILI_SHARE) * v ** 0.5 / rest for lang, v in total.items()}
    return weight * np.array([share[lang] / total[lang] for lang in langs])


def padded(row):
    return -(-len(row[0]) // STEP) * STEP


class Examples:
    """Draws conversations. `pairs`: (language, source letter, English, translation); `answered`: (question, answer) in English; `alone`: Swahili
    texts. `tok` and `varied` are the tokenizer and one that cuts words into varying pieces."""

    def __init__(self, tok, varied, pairs, answered, alone, seed):
        self.tok, self.varied, self.pairs, self.answered, self.alone = tok, varied, pairs, answered, alone
        self.rng, self.random = np.random.default_rng(seed), random.Random(seed)
        self.cdf = np.cumsum(pair_weights([p[0] for p in pairs], [p[1] for p in pairs], [len(p[3]) for p in pairs]))
        self.cdf /= self.cdf[-1]
        self.same = {}
        for pair in pairs:
            if pair[1] not in OWN:
                self.same.setdefault(pair[0], []).append(pair)

    def conversation(self, ask, answer, read=None, system=SYSTEM):
        """Token ids and the weight of each in the loss; `read` is the part of the question to be learnt as text."""
        prompt = HEAD.format(system=system) + ask + TURN
        asked = (self.varied if self.random.random() < 0.5 else self.tok).encode(prompt)
        weight = np.zeros(len(asked.ids), np.float32)
        if read:
            begins = prompt.index(read)
            weight[[begins < a and b <= begins + len(read) for a, b in asked.offsets]] = SOURCE_LOSS
        told = self.tok.encode(f"{answer}<|im_end|>").ids
        return asked.ids + told, np.concatenate([weight, np.ones(len(told), np.float32)])

    def translation(self):
        pair = self.pairs[min(np.searchsorted(self.cdf, self.rng.random()), len(self.cdf) - 1)]
        lang, letter, rows = pair[0], pair[1], [pair]
        into = self.random.random() < 0.5
        if letter in OWN:
            # What a model translated is only read, never written.
            into = OWN[letter]
        elif self.random.random() < 0.25:
            # Two or three sentences at once, as people send them.
            rows += self.random.choices(self.same[lang], k=self.random.choice((1, 1, 2)))
        english, foreign = (" ".join(r[side] for r in rows) for side in (2, 3))
        (source, text), (target, answer) = (("English", english), (LANGUAGES[lang], foreign))[::1 if into else -1]
        read = text if not into and letter not in OWN else None
        if self.random.random() < 0.05:
            return self.conversation(text, answer, read, f"Translate from {source} to {target}.")
        return self.conversation(self.random.choices(ASK, ASK_WEIGHT)[0].format(source=source, target=target, text=text), answer, read)

    def which(self):
        pair = self.random.choice(self.same[self.random.choice(list(self.same))])
        english = self.random.random() < 0.15
        ask = self.random.choice(WHICH).format(text=pair[2] if english else pair[3])
        return self.conversation(ask, f"{'English' if english else LANGUAGES[pair[0]]}.")

    def english(self):
        return self.conversation(*self.random.choice(self.answered))

    def swahili(self):
        """Plain text, as the model read before it was taught to chat."""
        ids = [0] + self.tok.encode(" ".join(self.random.choices(self.alone, k=4))).ids
        return ids, np.ones(len(ids), np.float32)

    def draw(self, n):
        makers = {"translate": self.translation, "which": self.which, "english": self.english, "swahili": self.swahili}
        kinds = [k for k in SHARES if (k != "english" or self.answered) and (k != "swahili" or self.alone)]
        for kind in self.random.choices(kinds, [SHARES[k] for k in kinds], k=n):
            ids, weight = makers[kind]()
            yield ids[:LONGEST], weight[:LONGEST]

    def batches(self, tokens, pool=12000):
        """[rows, length] ids and loss weights, about `tokens` each, padded at the end to a multiple of STEP."""
        while True:
            rows = sorted(self.draw(pool), key=lambda r: len(r[0]))
            made, first = [], 0
            for last in range(1, len(rows) + 1):
                if last < len(rows) and (last + 1 - first) * padded(rows[last]) <= tokens:
                    continue
                part, length = rows[first:last], padded(rows[last - 1])
                ids, weight = np.zeros((len(part), length), np.int32), np.zeros((len(part), length), np.float32)
                for r, (a, w) in enumerate(part):
                    ids[r, :len(a)], weight[r, :len(a)] = a, w
                made.append((ids, weight))
                first = last
            self.random.shuffle(made)
            yield from made
