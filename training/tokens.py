"""Texts to token ids, on all cores."""
import json
import os
from pathlib import Path

os.environ["TOKENIZERS_PARALLELISM"] = "false"
import numpy as np
from tokenizers import Tokenizer


def thinned(path, share, seed):
    """The same tokenizer with a share of its longer pieces left out: it cuts the same words into smaller pieces.

    Reading each sentence in several segmentations keeps rare words from being learnt by heart."""
    spec = json.loads(Path(path).read_text(encoding="utf8"))
    vocab, rng = spec["model"]["vocab"], np.random.default_rng(seed)
    spec["model"]["vocab"] = {t: i for t, i in vocab.items() if len(t.removeprefix("##")) < 3 or t.startswith("[") or rng.random() > share}
    return spec


_tok = {}


def _encode(job):
    key, spec, limit, texts = job
    if key not in _tok:
        _tok[key] = Tokenizer.from_str(spec)
        _tok[key].no_padding()
    tok = _tok[key]
    tok.enable_truncation(limit)
    rows = [e.ids for e in tok.encode_batch(texts)]
    return np.fromiter((t for r in rows for t in r), np.int32, sum(map(len, rows))), np.fromiter(map(len, rows), np.int64, len(rows))


def encode_on(pool, name, spec, limit, texts, chunk=20000):
    jobs = [(name, spec, limit, texts[i:i + chunk]) for i in range(0, len(texts), chunk)]
    return pool.map_async(_encode, jobs, chunksize=1)


def gathered(pending):
    parts = pending.get()
    return np.concatenate([p[0] for p in parts]), np.concatenate([p[1] for p in parts])
