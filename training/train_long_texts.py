"""Second stage: teach the embedder longer texts in every language.

    python train_long_texts.py --weights OUT/student.pt --prepared PREPARED --tokenizer tokenizer.json --out OUT2 --seconds 120

Many languages have short sentences only. Here up to four sentences of a language are read as one text. Its target is the vector that the
first stage gives to the same sentences in English, joined in the same way; passages and questions keep the vectors they have."""
import argparse
import json
import multiprocessing as mp
import os
from pathlib import Path

import numpy as np
from tokenizers import Tokenizer

from tokens import encode_on, gathered
from train_embedder import JOINED_TOKENS, LONG_TOKENS, MAX_TOKENS

# They have many short sentences and few long ones.
SHORT = "fra por cmn spa ind hin deu arb jpn rus urd vie ben tur kor tha ita nld pol".split()


def chosen(prepared, rows, kept):
    """A sample of the pairs by weight, with languages of short sentences twice as often; and one of questions and passages."""
    lines = lambda name: (prepared / name).read_text(encoding="utf8").split("\n")
    columns, langs, rng = np.load(prepared / "columns.npz"), json.loads((prepared / "meta.json").read_text(encoding="utf8"))["langs"], np.random.default_rng(5)
    often = np.isin(np.asarray(langs), SHORT)[columns["lang"]]
    weight = columns["weight"].astype(np.float64) * np.where(often, 2.0, 1.0)
    weight /= weight.sum()
    pick = np.sort(np.argsort(-np.log(rng.random(len(weight))) / np.maximum(weight, 1e-30))[:rows])
    used, eid = np.unique(columns["eid"][pick], return_inverse=True)
    p = columns["qp_weight"].astype(np.float64)
    asked = rng.choice(len(p), min(kept, len(p)), replace=False, p=p / p.sum())
    english, foreign, passages, queries = map(lines, ("english.txt", "foreign.txt", "passages.txt", "queries.txt"))
    stay = [passages[i] for i in np.unique(columns["qp_passage"][asked])] + [queries[i] for i in np.unique(columns["qp_query"][asked])]
    return [english[i] for i in used], [foreign[i] for i in pick], stay, columns["lang"][pick], eid.astype(np.int64), weight[pick]


def main():
    args = argparse.ArgumentParser()
    args.add_argument("--weights", required=True)
    args.add_argument("--prepared", required=True)
    args.add_argument("--tokenizer", required=True)
    args.add_argument("--out", required=True)
    args.add_argument("--eval", help="held-out directory, read once after training for the report")
    args.add_argument("--seconds", type=float, default=120)
    args.add_argument("--steps", type=int, default=0, help="train for this many steps instead")
    args.add_argument("--batch", type=int, default=1024)
    args.add_argument("--rows", type=int, default=600_000, help="pairs to draw from")
    args.add_argument("--kept", type=int, default=45_000, help="questions and passages whose vectors must stay")
    args.add_argument("--lr", type=float, default=2e-4)
    args.add_argument("--word-lr", type=float, default=5e-4)
    args.add_argument("--workers", type=int, default=max(1, len(os.sched_getaffinity(0)) - 1))
    args = args.parse_args()
    prepared, out = Path(args.prepared), Path(args.out)
    out.mkdir(parents=True, exist_ok=True)
    pool = mp.get_context("fork").Pool(args.workers)  # before the accelerator is touched
    own = Path(args.tokenizer).read_text(encoding="utf8")
    english, foreign_texts, kept_texts, lang, eid, weight = chosen(prepared, args.rows, args.kept)
    pending = [encode_on(pool, "own", own, limit, texts) for limit, texts in ((LONG_TOKENS, english), (MAX_TOKENS, foreign_texts), (LONG_TOKENS, kept_texts))]

    import torch
    import torch.nn.functional as F
    from loop import Draw, alike, log, nce, optimizer, save, start, together, train
    from model import Bert, Flat, embed_all
    from packing import Store
    from report import report_flores

    device, rng = start(), np.random.default_rng(1)
    unit = lambda x: F.normalize(x, dim=-1)
    weights = {k: v.float() for k, v in torch.load(args.weights, map_location="cpu").items()}
    layers = sum(name.endswith(".q.weight") for name in weights)

    def build():
        model = Bert(len(weights["word.weight"]), layers, head=True)
        model.load_state_dict(weights)
        return model.to(device)

    student, first = build(), build().eval().requires_grad_(False)
    store = Store(device)
    en, foreign, kept = (store.add(*gathered(p)) for p in pending)
    store.seal()
    pool.terminate()
    draw = Draw(weight, rng)
    log("pairs", len(foreign), "English", len(en), "kept", len(kept), "layers", layers)

    b = args.batch

    def loss_of():
        i = draw(b)
        j = together(draw, lang, rng, b)
        long, used = foreign.joined(j, JOINED_TOKENS)
        goal_long, _ = en.joined(np.where(used, eid[j], -1), LONG_TOKENS)
        k = rng.integers(0, len(kept), b // 4)
        e = rng.integers(0, len(en), b // 4)
        plain = [kept.single(k), en.single(e)]
        with torch.no_grad(), torch.autocast(device.type, torch.bfloat16):
            goal = unit(first.means(store.pack([en.single(eid[i]), goal_long, *plain]), LONG_TOKENS).float())
        shares = [np.full(len(i), 0.12), np.full(b, 0.12), np.full(len(k) + len(e), 0.03)]
        with torch.autocast(device.type, torch.bfloat16):
            v = unit(student.means(store.pack([foreign.single(i), long, *plain], shares), LONG_TOKENS).float())
        sizes = [b, b, len(k) + len(e)]
        loss = 0.0
        for (x, g), weight, contrast in zip(zip(v.split(sizes), goal.split(sizes)), (3.0, 4.0, 3.0), (0.4, 0.5, 0.0)):
            loss = loss + weight * (1 - (x * g).sum(1)).mean()
            if contrast:
                loss = loss + contrast * nce(x, g, alike(g))
        return loss

    step = train(student, optimizer(student, args.lr, args.word_lr), loss_of, args.seconds, 40, args.steps)
    save(student, out / "student.pt")
    log("trained", step, "steps")
    if args.eval:
        tok = Tokenizer.from_str(own)
        tok.no_padding()
        tok.enable_truncation(LONG_TOKENS)
        report_flores(args.eval, out, lambda texts: embed_all(student, Flat.encode(tok, texts, device)), log)
    log("done")


if __name__ == "__main__":
    main()
