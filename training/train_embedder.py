"""Distil English sentence encoders into one small multilingual encoder over parallel sentences, questions and passages.

    python train_embedder.py --prepared PREPARED --tokenizer tokenizer.json --teachers TEACHERS --start start.npz --out OUT --seconds 1100

The target of every sentence is the vector its English side gets from three teachers together (each centred and
normalised, put side by side, turned to the principal axes, the leading 384 kept), so that truncated vectors work.
The student sees the foreign side, the English side, joined sentences, graded pairs, and questions with their passages.
Foreign texts also have the student's own vector of their English side as a target, joined sentences only that."""
import argparse
import json
import multiprocessing as mp
import os
from pathlib import Path

import numpy as np
from tokenizers import Tokenizer

from tokens import encode_on, gathered, thinned

DIM, MAX_TOKENS, JOINED_TOKENS, LONG_TOKENS = 384, 96, 200, 256


def student_means(student, store, texts, rows):
    import torch

    student.eval()
    with torch.no_grad(), torch.autocast(store.device.type, torch.bfloat16):
        return student.means(store.pack([texts.single(rows)]), LONG_TOKENS).float()


def main():
    args = argparse.ArgumentParser()
    args.add_argument("--prepared", required=True)
    args.add_argument("--tokenizer", required=True)
    args.add_argument("--teachers", required=True)
    args.add_argument("--out", required=True)
    args.add_argument("--eval", help="held-out directory, read once after training for the report")
    args.add_argument("--seconds", type=float, default=1100, help="training time")
    args.add_argument("--steps", type=int, default=0, help="train for this many steps instead")
    args.add_argument("--batch", type=int, default=2048, help="foreign texts in a step: half of them sentences, half joined sentences")
    args.add_argument("--questions", type=int, default=192, help="questions with their passages in a step")
    args.add_argument("--graded", type=int, default=128, help="graded pairs in a step")
    args.add_argument("--graded-weight", type=float, default=0.3)
    args.add_argument("--variants", type=int, default=3)
    args.add_argument("--workers", type=int, default=max(1, len(os.sched_getaffinity(0)) - 1))
    args.add_argument("--lr", type=float, default=4e-4)
    args.add_argument("--word-lr", type=float, default=1e-3)
    args.add_argument("--layers", type=int, default=10)
    args.add_argument("--start", required=True, help="weights of an earlier version (teachers.py) to go on from")
    args = args.parse_args()
    prepared, out = Path(args.prepared), Path(args.out)
    out.mkdir(parents=True, exist_ok=True)
    lines = lambda name: (prepared / name).read_text(encoding="utf8").split("\n")

    pool = mp.get_context("fork").Pool(args.workers)  # before the accelerator is touched
    english, foreign, extra, queries, passages = map(lines, ("english.txt", "foreign.txt", "extra.txt", "queries.txt", "passages.txt"))
    pivots = [line.split("\t") for line in lines("pivot.tsv")]
    meta = json.loads((prepared / "meta.json").read_text(encoding="utf8"))
    columns = np.load(prepared / "columns.npz")
    own = Path(args.tokenizer).read_text(encoding="utf8")
    theirs = (Path(args.teachers) / "tokenizer.json").read_text(encoding="utf8")
    pending = {"teacher": encode_on(pool, "teacher", theirs, LONG_TOKENS, english + extra),
               "english": encode_on(pool, "own", own, LONG_TOKENS, english + extra),
               "foreign0": encode_on(pool, "own", own, MAX_TOKENS, foreign),
               "queries": encode_on(pool, "own", own, MAX_TOKENS, queries),
               "passages": encode_on(pool, "own", own, LONG_TOKENS, passages),
               "pivots": encode_on(pool, "own", own, MAX_TOKENS, [text for pair in pivots for text in pair])}
    for v in range(1, args.variants + 1):
        spec = json.dumps(thinned(args.tokenizer, 0.25 + 0.15 * (v - 1), v), ensure_ascii=False)
        pending[f"foreign{v}"] = encode_on(pool, f"own{v}", spec, MAX_TOKENS + 32, foreign)

    import torch
    import torch.nn.functional as F
    from loop import Draw, alike, log, nce, optimizer, save, start, together, train
    from model import Bert, Flat, cls_pool, embed_all, load_bert, mean_pool, read_weights, spearman
    from packing import Store
    from report import report_flores

    device, rng = start(), np.random.default_rng(0)
    unit = lambda x: F.normalize(x, dim=-1)
    log("pairs", len(foreign), "English", len(english), "extra", len(extra), "questions", len(columns["qp_query"]), "languages", len(meta["langs"]))

    # ---- targets
    ids, lengths = gathered(pending.pop("teacher"))
    flat = Flat(ids.astype(np.int32), lengths, device)
    log("teacher tokens", len(ids))
    targets = []
    for name, layers, pool_fn in (("minilm", 6, mean_pool), ("bge", 12, cls_pool), ("gte", 12, mean_pool)):
        teacher = load_bert(Bert(30522, layers), read_weights(Path(args.teachers) / f"{name}.npz")).to(device).eval()
        own_space = embed_all(teacher, flat, pool_fn, batch=2048)
        targets.append(unit(own_space - own_space[: len(english)].mean(0)))
        del teacher
        log("teacher", name)
    t = torch.cat(targets, 1) / len(targets) ** 0.5
    del targets, flat
    _, axes = torch.linalg.eigh((t.T @ t / len(t)).double())
    t = t @ axes.flip(-1)[:, :DIM].float()
    log("variance kept", round(float((t ** 2).sum(1).mean()), 4), "in leading 64/128/256",
        [round(float((t[:, :d] ** 2).sum() / (t ** 2).sum()), 3) for d in (64, 128, 256)])
    t = unit(t)
    del own_space

    # ---- student
    tok = Tokenizer.from_str(own)
    tok.no_padding()
    tok.enable_truncation(MAX_TOKENS)
    vocab = tok.get_vocab_size()
    student = Bert(vocab, args.layers, head=True)
    earlier = read_weights(args.start)
    load_bert(student, earlier, words=False)
    student.head.weight.data.copy_(earlier["head.weight"])
    rows = earlier["embeddings.word_embeddings.weight"]
    # Pieces that the earlier vocabulary lacks start at random.
    table = torch.cat([rows, rows.mean(0) + rows.std(0) * 0.6 * torch.randn(vocab - len(rows), DIM)])
    student.word.weight.data.copy_(table)
    student.to(device)
    log("student", sum(p.numel() for p in student.parameters()), "parameters")

    store = Store(device)
    en, asked, told, pivot = (store.add(*gathered(pending.pop(name))) for name in ("english", "queries", "passages", "pivots"))
    views = [store.add(*gathered(pending.pop("foreign0")))]
    store.seal()
    # The targets have axes of their own in each training: the head turns to the new ones.
    sample = rng.choice(len(english), min(len(english), 100_000), replace=False)
    vectors = torch.cat([student_means(student, store, en, sample[i:i + 2000]) for i in range(0, len(sample), 2000)])
    goal = t[torch.from_numpy(sample).to(device)]
    turn = torch.linalg.solve((vectors.T @ vectors + 1e-3 * torch.eye(DIM, device=device)).double(), (vectors.T @ goal).double()).float()
    student.head.weight.data.copy_(turn.T @ student.head.weight.data)
    log("start at cosine", round(float(F.cosine_similarity(vectors, goal).mean()), 4), "turned", round(float(F.cosine_similarity(vectors @ turn, goal).mean()), 4))
    eid, lang = columns["eid"].astype(np.int64), columns["lang"]
    draw = Draw(columns["weight"], rng)
    log("tokens per text: English", round(float(en.length.mean()), 1), "foreign", round(float(views[0].length.mean()), 1),
        "question", round(float(asked.length.mean()), 1), "passage", round(float(told.length.mean()), 1))

    # Questions sorted by page, so that a second question of the same page can be drawn beside each.
    order = np.argsort(columns["qp_group"], kind="stable")
    qp_query, qp_passage, qp_group = (columns[f"qp_{name}"].astype(np.int64)[order] for name in ("query", "passage", "group"))
    page_start = np.searchsorted(qp_group, qp_group, "left")
    page_size = np.searchsorted(qp_group, qp_group, "right") - page_start
    draw_question = Draw(columns["qp_weight"][order], rng)

    grades = torch.tensor(meta["grades"], device=device)
    n_rows, n_train, codes = len(grades), meta["stsb_train"], sorted(meta["stsb"])
    graded_texts = [s for c in codes for side in meta["stsb"][c] for s in side]
    graded_rows = tok.encode_batch(graded_texts)
    graded = store.add(np.concatenate([e.ids for e in graded_rows]).astype(np.int32), np.array([len(e.ids) for e in graded_rows]))
    store.seal()
    at = lambda c, side, row: (c * 2 + side) * n_rows + row

    # ---- validation on what was held back
    flat_of = lambda texts: Flat.encode(tok, texts, device)
    validation = {l: (flat_of([a for a, _ in r]), flat_of([b for _, b in r])) for l, r in meta["validation"].items()}
    graded_flat = flat_of(graded_texts)
    searches = {}
    for row in meta["qp_validation"]:
        searches.setdefault("African" if row["file"] == "afriqa" and row["lang"] not in ("en", "fr") else row["file"], []).append(row)
    tok.enable_truncation(LONG_TOKENS)
    searched = {name: (flat_of([r["query"] for r in rows]), flat_of([passages[r["passage"]] for r in rows])) for name, rows in searches.items() if len(rows) >= 40}

    def validate():
        with torch.no_grad():
            acc, found = {}, {}
            for l, (a, b) in validation.items():
                x, y = embed_all(student, a), embed_all(student, b)
                s, k = y @ x.T, torch.arange(len(x), device=device)
                acc[l] = float(((s.argmax(1) == k).float().mean() + (s.argmax(0) == k).float().mean()) / 2)
            rows = torch.arange(n_train, n_rows, device=device)
            g = embed_all(student, graded_flat)
            sts = {c: spearman((g[at(i, 0, rows)] * g[at(i, 1, rows)]).sum(1).cpu().numpy(), grades[rows].cpu().numpy()) for i, c in enumerate(codes) if c in ("en", "fr", "de")}
            for name, (q, p) in searched.items():
                s = embed_all(student, q) @ embed_all(student, p).T
                found[name] = float((1.0 / (1 + (s > s.diagonal()[:, None]).sum(1))).mean())
        named = [acc[l] for l in acc if meta["group"].get(l) == "af"]
        log("validation: African", round(float(np.mean(named)), 4), "all", round(float(np.mean(list(acc.values()))), 4),
            {l: round(acc[l], 3) for l in ("swh", "zul", "hau", "yor", "amh", "kin", "lug", "fra") if l in acc},
            "graded", {c: round(v, 4) for c, v in sts.items()}, "search", {k: round(v, 3) for k, v in found.items()})
        return {"african": float(np.mean(named)), "bitext": acc, "graded": sts, "search": found}

    # ---- training
    b, longer, asks, graded_pairs, bridges = args.batch // 2, args.batch // 5, args.questions, args.graded, 64
    upload = lambda a: torch.from_numpy(np.ascontiguousarray(a)).to(device, non_blocking=True)
    away = lambda x, y: 1 - (x * y).sum(1).mean()

    def next_view():
        """A segmentation of the foreign sentences; the thinned ones are added as they get ready."""
        ready = pending.get(f"foreign{len(views)}")
        if ready and ready.ready():
            views.append(store.add(*gathered(pending.pop(f"foreign{len(views)}"))))
            store.seal()
            log("segmentation", len(views), "mean tokens", round(float(views[-1].length.mean()), 1))
        return views[0] if len(views) == 1 or rng.random() < 0.45 else views[rng.integers(1, len(views))]

    def loss_of():
        view = next_view()
        i = draw(b)
        e = eid[i]
        k = rng.integers(0, len(en), longer)
        j = together(draw, lang, rng, b)
        joined, used = views[0].joined(j, JOINED_TOKENS)
        q1 = draw_question(asks // 2)
        q = np.concatenate([q1, page_start[q1] + (rng.random(len(q1)) * page_size[q1]).astype(np.int64)])
        rows = rng.integers(0, n_train, graded_pairs)
        c1 = rng.integers(0, len(codes), graded_pairs)
        c2 = np.where(rng.random(graded_pairs) < 0.75, c1, rng.integers(0, len(codes), graded_pairs))
        bridge = rng.integers(0, len(pivots), bridges) * 2
        segments = [view.single(i), en.single(e), en.single(k), joined, asked.single(qp_query[q]),
                 told.single(qp_passage[q]), graded.single(np.concatenate([at(c1, 0, rows), at(c2, 1, rows)])),
                 pivot.single(bridge), pivot.single(bridge + 1)]
        sizes = [int(s[-1, 0]) + 1 for s in segments]
        pack = store.pack(segments, [np.full(n, share) for n, share in zip(sizes, (0.15, 0.05, 0.0, 0.12, 0.05, 0.05, 0.0, 0.15, 0.0))])
        with torch.autocast(device.type, torch.bfloat16):
            v = student.means(pack, LONG_TOKENS).float()
        x, y, z, w, ask, tell, g, near, far = v.split(sizes)
        goal = t[upload(e)]
        bad = alike(goal)
        fx, fy = unit(x), unit(y)
        loss = 3 * away(fx, goal) + 2 * away(fy, goal) + 1.5 * away(unit(z), t[upload(k)])
        loss = loss + 0.5 * nce(fx, goal, bad) + 0.3 * nce(fx, fy, bad, both=True) + 2 * away(fx, fy.detach())
        for d in (64, 128, 256):
            loss = loss + 0.1 * nce(unit(x[:, :d]), unit(goal[:, :d]), bad)
        # joined sentences: the student's own vector of the same sentences in English, whose long texts have targets of the teachers
        with torch.no_grad(), torch.autocast(device.type, torch.bfloat16):
            english_joined, _ = en.joined(np.where(used, eid[j], -1), LONG_TOKENS)
            whole = unit(student.means(store.pack([english_joined]), LONG_TOKENS).float())
        fw = unit(w)
        loss = loss + 4 * away(fw, whole) + 0.5 * nce(fw, whole, alike(whole))
        # pairs without an English side: the student's own vector of the larger language is the target
        near, far = unit(near), unit(far).detach()
        loss = loss + 0.15 * away(near, far) + 0.05 * nce(near, far, alike(far))
        # questions and passages
        page = upload(qp_passage[q])
        same = (page[:, None] == page[None]).fill_diagonal_(False)
        fa, ft = unit(ask), unit(tell)
        search = nce(fa, ft, same, both=True)
        for d in (128, 256):
            search = search + 0.2 * nce(unit(ask[:, :d]), unit(tell[:, :d]), same, both=True)
        # graded pairs, within and across languages
        s = 20 * (unit(g[:graded_pairs]) * unit(g[graded_pairs:])).sum(1)
        grade = grades[upload(rows)]
        worse = torch.where(grade[:, None] < grade[None], s[:, None] - s[None], -1e4)
        ranked = torch.logsumexp(torch.cat([worse.new_zeros(1), worse.flatten()]), 0) / 2
        return loss + 0.6 * search + args.graded_weight * ranked

    curve = []

    def check(done, step):
        curve.append({"done": done, "step": step, **validate()})
        save(student, out / "checkpoint.pt")

    step = train(student, optimizer(student, args.lr, args.word_lr), loss_of, args.seconds, 400, args.steps, (0.1, 0.25, 0.5, 0.75), check)
    curve.append({"done": 1.0, "step": step, **validate()})
    save(student, out / "student.pt")
    (out / "curve.json").write_text(json.dumps({"steps": step, "seconds": args.seconds, "curve": curve}, indent=1))
    log("trained", step, "steps")
    pool.terminate()

    if args.eval:
        tok.enable_truncation(LONG_TOKENS)
        report_flores(args.eval, out, lambda texts: embed_all(student, flat_of(texts)), log)
    log("done")


if __name__ == "__main__":
    main()
