"""Distil English sentence encoders into one small multilingual encoder over parallel sentences.

    python train_embedder.py --prepared PREPARED --tokenizer tokenizer.json --teachers TEACHERS --out OUT --seconds 840

The target of every sentence is the vector its English side gets from three teachers together (each centred and
normalised, put side by side, turned to the principal axes, the leading 384 kept), so that truncated vectors work.
The student sees the foreign side, the English side, joined sentences and graded pairs."""
import argparse
import json
import math
import multiprocessing as mp
import os
import time
from pathlib import Path

os.environ["TOKENIZERS_PARALLELISM"] = "false"
import numpy as np
from tokenizers import Tokenizer

DIM, MAX_TOKENS, LONG_TOKENS, TEACHER_TOKENS = 384, 96, 224, 224
T0 = time.time()


def log(*a):
    print(f"[{time.time() - T0:7.1f}]", *a, flush=True)


# ---- text to token ids, on all cores

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
        _tok[key] = Tokenizer.from_str(spec) if spec else None
        _tok[key].no_padding()
    tok = _tok[key]
    tok.enable_truncation(limit)
    rows = [e.ids for e in tok.encode_batch(texts)]
    return np.fromiter((t for r in rows for t in r), np.uint16, sum(map(len, rows))), np.fromiter(map(len, rows), np.int64, len(rows))


def encode_on(pool, name, spec, limit, texts, chunk=20000):
    jobs = [(name, spec, limit, texts[i:i + chunk]) for i in range(0, len(texts), chunk)]
    return pool.map_async(_encode, jobs, chunksize=1)


def main():
    args = argparse.ArgumentParser()
    args.add_argument("--prepared", required=True)
    args.add_argument("--tokenizer", required=True)
    args.add_argument("--teachers", required=True)
    args.add_argument("--out", required=True)
    args.add_argument("--eval", help="held-out directory, read once after training for the report")
    args.add_argument("--seconds", type=float, default=840, help="training time")
    args.add_argument("--batch", type=int, default=2048)
    args.add_argument("--compile", action="store_true")
    args.add_argument("--variants", type=int, default=3)
    args.add_argument("--workers", type=int, default=max(1, (os.cpu_count() or 2) - 1))
    args.add_argument("--lr", type=float, default=4e-4)
    args.add_argument("--word-lr", type=float, default=1e-3)
    args.add_argument("--save-every", type=float, default=180)
    args.add_argument("--layers", type=int, default=6)
    args = args.parse_args()
    prepared, out = Path(args.prepared), Path(args.out)
    out.mkdir(parents=True, exist_ok=True)
    lines = lambda name: (prepared / name).read_text(encoding="utf8").split("\n")

    pool = mp.get_context("fork").Pool(args.workers)  # before the accelerator is touched
    english, foreign, extra = lines("english.txt"), lines("foreign.txt"), lines("extra.txt")
    meta = json.loads((prepared / "meta.json").read_text(encoding="utf8"))
    columns = np.load(prepared / "columns.npz")
    own = Path(args.tokenizer).read_text(encoding="utf8")
    theirs = (Path(args.teachers) / "tokenizer.json").read_text(encoding="utf8")
    log("pairs", len(foreign), "English", len(english), "extra", len(extra), "languages", len(meta["langs"]))
    pending = {"teacher": encode_on(pool, "teacher", theirs, TEACHER_TOKENS, english + extra),
               "english": encode_on(pool, "own", own, LONG_TOKENS, english + extra),
               "foreign0": encode_on(pool, "own", own, MAX_TOKENS, foreign)}
    for v in range(1, args.variants + 1):
        spec = json.dumps(thinned(args.tokenizer, 0.25 + 0.15 * (v - 1), v), ensure_ascii=False)
        pending[f"foreign{v}"] = encode_on(pool, f"own{v}", spec, MAX_TOKENS + 32, foreign)

    import torch
    import torch.nn as nn
    import torch.nn.functional as F
    from model import Bert, Flat, cls_pool, embed_all, load_bert, mean_pool, read_weights, spearman

    torch.manual_seed(0)
    np.random.seed(0)
    torch.backends.cuda.matmul.allow_tf32 = True
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    cast = lambda: torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda")

    def ready(name, wait=True):
        if not wait and not pending[name].ready():
            return None
        parts = pending.pop(name).get()
        return Flat(np.concatenate([p[0] for p in parts]).astype(np.int32), np.concatenate([p[1] for p in parts]), device)

    # ---- targets
    flat = ready("teacher")
    log("teacher tokens", int(flat.n.sum()))
    targets, minilm = [], None
    for name, layers, pool_fn in (("minilm", 6, mean_pool), ("gte", 12, mean_pool), ("bge", 12, cls_pool)):
        path = Path(args.teachers) / f"{name}.npz"
        weights = read_weights(path)
        teacher = load_bert(Bert(30522, layers), weights).to(device).eval()
        v = embed_all(teacher, flat, pool_fn, batch=2048 if device.type == "cuda" else 64)
        if name == "minilm":
            minilm, start = v.clone(), weights
        v = F.normalize(v - v[: len(english)].mean(0), dim=-1)
        targets.append(v)
        del teacher
        log("teacher", name)
    t = torch.cat(targets, 1) / len(targets) ** 0.5
    del targets, flat
    _, axes = torch.linalg.eigh((t.T @ t / len(t)).double())
    axes = axes.flip(-1)[:, :DIM].float()
    t = t @ axes
    log("variance kept", round(float((t ** 2).sum(1).mean()), 4), "in leading 64/128/256",
        [round(float((t[:, :d] ** 2).sum() / (t ** 2).sum()), 3) for d in (64, 128, 256)])
    t = F.normalize(t, dim=-1)
    # Least-squares map from the first teacher's own space: where the student's head starts.
    head = torch.linalg.lstsq(minilm.double(), t.double()).solution.float() if device.type == "cpu" else \
        torch.linalg.solve((minilm.T @ minilm + 1e-3 * torch.eye(DIM, device=device)).double(), (minilm.T @ t).double()).float()
    log("head starts at cosine", round(float(F.cosine_similarity(minilm @ head, t).mean()), 4))
    del minilm

    # ---- student
    tok, ttok = Tokenizer.from_str(own), Tokenizer.from_str(theirs)
    tok.no_padding(), ttok.no_padding()
    tok.enable_truncation(MAX_TOKENS)
    vocab = tok.get_vocab_size()
    student = Bert(vocab, args.layers, head=True)
    load_bert(student, start, words=False)
    student.head.weight.data.copy_(head.T.cpu())
    words = start["embeddings.word_embeddings.weight"]
    known, unk = ttok.get_vocab(), ttok.token_to_id("[UNK]")
    pieces = [""] * vocab
    for s, i in tok.get_vocab().items():
        pieces[i] = s
    table = words.mean(0) + words.std(0) * 0.6 * torch.randn(vocab, DIM)
    split = [e.ids[1:-1] for e in ttok.encode_batch([s.removeprefix("##") for s in pieces])]
    hits = 0
    for i, s in enumerate(pieces):
        if s in known:
            table[i] = words[known[s]]
        elif split[i] and unk not in split[i] and s.isascii():
            table[i] = words[split[i]].mean(0)
        else:
            continue
        hits += 1
    student.word.weight.data.copy_(table)
    student.to(device)
    log("student", sum(p.numel() for p in student.parameters()), "parameters; rows started from the teacher", hits)

    fen = ready("english")
    views = [ready("foreign0")]
    eid = torch.from_numpy(columns["eid"]).to(device).long()
    lang = torch.from_numpy(columns["lang"]).to(device).long()
    cdf = torch.cumsum(torch.from_numpy(columns["weight"].astype(np.float64)).to(device), 0)
    cdf = cdf / cdf[-1].clone()
    log("tokens per sentence: English", round(float(fen.n[: len(english)].float().mean()), 1), "foreign", round(float(views[0].n.float().mean()), 1),
        "unknown", round(float((views[0].ids == 1).float().mean()), 5))

    grades = torch.tensor(meta["grades"], device=device)
    n_rows, n_train, codes = len(grades), meta["stsb_train"], sorted(meta["stsb"])
    graded = Flat.encode(tok, [s for c in codes for side in meta["stsb"][c] for s in side], device)
    at = lambda c, side, row: (c * 2 + side) * n_rows + row

    # ---- validation on what was held back
    validation = {l: (Flat.encode(tok, [a for a, _ in r], device), Flat.encode(tok, [b for _, b in r], device)) for l, r in meta["validation"].items()}

    def validate():
        with torch.no_grad():
            acc = {}
            for l, (a, b) in validation.items():
                x, y = embed_all(student, a), embed_all(student, b)
                s, k = y @ x.T, torch.arange(len(x), device=device)
                acc[l] = float(((s.argmax(1) == k).float().mean() + (s.argmax(0) == k).float().mean()) / 2)
            rows = torch.arange(n_train, n_rows, device=device)
            g = embed_all(student, graded)
            sts = {c: spearman((g[at(i, 0, rows)] * g[at(i, 1, rows)]).sum(1).cpu().numpy(), grades[rows].cpu().numpy()) for i, c in enumerate(codes) if c in ("en", "fr", "de")}
        named = [acc[l] for l in acc if meta["group"].get(l) == "af"]
        log("validation: African", round(float(np.mean(named)), 4), "all", round(float(np.mean(list(acc.values()))), 4),
            {l: round(acc[l], 3) for l in ("swh", "zul", "hau", "yor", "amh", "kin", "lug", "fra") if l in acc}, "graded", {c: round(v, 4) for c, v in sts.items()})
        return {"african": float(np.mean(named)), "bitext": acc, "graded": sts}

    # ---- training
    rest = [p for n, p in student.named_parameters() if p.ndim >= 2 and n != "word.weight"]
    small = [p for p in student.parameters() if p.ndim < 2]
    opt = torch.optim.AdamW([
        {"params": [student.word.weight], "peak": args.word_lr, "weight_decay": 0.05},
        {"params": rest, "peak": args.lr, "weight_decay": 0.02},
        {"params": small, "peak": args.lr, "weight_decay": 0.0}], lr=1e-4, betas=(0.9, 0.98), fused=device.type == "cuda")
    if args.compile:
        import torch._dynamo
        torch._dynamo.config.suppress_errors = True  # fall back to the plain model
    net = torch.compile(student, dynamic=True) if args.compile else student
    b, chunks = args.batch, 4

    def hide(ids, share):
        return torch.where((torch.rand(ids.shape, device=device) < share) & (ids > 4), 4, ids)

    def nce(x, y, bad, scale=20.0):
        s = (x @ y.T * scale).masked_fill(bad, -1e4)
        return F.cross_entropy(s, torch.arange(len(x), device=device))

    def both(x, y, bad, scale=20.0):
        s = (x @ y.T * scale).masked_fill(bad, -1e4)
        k = torch.arange(len(x), device=device)
        return (F.cross_entropy(s, k) + F.cross_entropy(s.T, k)) / 2

    def join(view, i, j):
        """Two sentences as one text, cut at 160 tokens: [CLS] a b [SEP]."""
        na, nb = view.n[i] - 1, view.n[j] - 1
        n = (na + nb).clamp(max=160)
        a = torch.arange(int((int(n.max()) + 7) // 8 * 8), device=device)[None]
        src = torch.where(a < na[:, None], view.off[i][:, None] + a, view.off[j][:, None] + a - na[:, None] + 1)
        mask = a < n[:, None]
        ids = torch.where(mask, view.ids[src.clamp(max=view.ids.numel() - 1)].int(), 0).long()
        return ids, mask

    def run(ids, mask):
        with cast():
            h = net(ids, mask)
        return mean_pool(h.float(), mask)

    def draw(n):
        return torch.searchsorted(cdf, torch.rand(n, device=device, dtype=torch.double)).clamp(max=len(eid) - 1)

    unit = lambda x: F.normalize(x, dim=-1)
    student.train()
    began, step, mean_loss, saved, curve, graded_seen = time.time(), 0, None, time.time(), [], 0
    checks = [0.25, 0.5, 0.7, 0.85, 0.95]
    while (done := (time.time() - began) / args.seconds) < 1:
        if len(views) <= args.variants and f"foreign{len(views)}" in pending and (more := ready(f"foreign{len(views)}", False)):
            views.append(more)
            log("segmentation", len(views), "mean tokens", round(float(more.n.float().mean()), 1))
            if len(views) > args.variants:
                pool.close()
        index = draw(b * chunks)
        index = index[torch.argsort(views[0].n[index])]
        others = torch.randint(0, len(fen), (b // 4 * chunks,), device=device)
        others = others[torch.argsort(fen.n[others])]
        for c in torch.randperm(chunks + 1).tolist():
            done = min(1.0, (time.time() - began) / args.seconds)
            rate = min(1.0, (step + 1) / 400) * (0.01 + 0.99 * 0.5 * (1 + math.cos(math.pi * done)))
            for g in opt.param_groups:
                g["lr"] = g["peak"] * rate
            view = views[0] if len(views) == 1 or np.random.rand() < 0.45 else views[np.random.randint(1, len(views))]
            if c == chunks:  # joined sentences, mostly of one language
                i = draw(b // 2 * 2)
                i = i[torch.argsort(lang[i])]
                i, j = i[0::2], i[1::2]
                ids, mask = join(view, i, j)
                wa, wb = fen.n[eid[i]].float()[:, None], fen.n[eid[j]].float()[:, None]
                goal = unit(wa * t[eid[i]] + wb * t[eid[j]])
                x = run(hide(ids, 0.12), mask)
                same = eid[i][:, None] == eid[i][None]
                same.fill_diagonal_(False)
                loss = 4 * (1 - (unit(x) * goal).sum(1)).mean() + 0.5 * nce(unit(x), goal, same)
            else:
                i = index[c * b:(c + 1) * b]
                e = eid[i]
                goal = t[e]
                x = run(*(lambda ids, mask: (hide(ids, 0.15), mask))(*view.batch(i)))
                half = torch.randperm(b, device=device)[: b // 2]
                y = run(*(lambda ids, mask: (hide(ids, 0.05), mask))(*fen.batch(e[half])))
                k = others[c * (b // 4):(c + 1) * (b // 4)]
                z = run(*fen.batch(k))
                with torch.no_grad():
                    bad = goal @ goal.T > 0.85
                    bad.fill_diagonal_(False)
                fx, fy = unit(x), unit(y)
                loss = 4 * (1 - (fx * goal).sum(1)).mean() + 2 * (1 - (fy * goal[half]).sum(1)).mean() + 1.5 * (1 - (unit(z) * t[k]).sum(1)).mean()
                loss = loss + 0.5 * nce(fx, goal, bad) + 0.3 * both(fx[half], fy, bad[half][:, half])
                for d in (64, 128, 256):
                    loss = loss + 0.1 * nce(unit(x[:, :d]), unit(goal[:, :d]), bad)
                if done > 0.4 and c == 0:  # graded pairs, within and across languages
                    rows = torch.randint(0, n_train, (160,), device=device)
                    p = torch.randint(0, len(codes), (160,), device=device)
                    q = torch.where(torch.rand(160, device=device) < 0.75, p, torch.randint(0, len(codes), (160,), device=device))
                    s = unit(run(*graded.batch(torch.cat([at(p, 0, rows), at(q, 1, rows)]))))
                    s = 20 * (s[:160] * s[160:]).sum(1)
                    g = grades[rows]
                    worse = (s[:, None] - s[None])[g[:, None] < g[None]]
                    loss = loss + 0.4 * torch.logsumexp(torch.cat([worse.new_zeros(1), worse]), 0) / 2
                    graded_seen += 160
            opt.zero_grad(set_to_none=True)
            loss.backward()
            nn.utils.clip_grad_norm_(student.parameters(), 1.0)
            opt.step()
            step += 1
            mean_loss = loss.detach() if mean_loss is None else mean_loss * 0.99 + loss.detach() * 0.01
        if step % (60 * (chunks + 1)) == 0:
            log("step", step, "loss", round(float(mean_loss), 4), "rate", round(rate, 3), "done", round(done, 3))
        if checks and done > checks[0]:
            curve.append({"done": checks.pop(0), "step": step, **validate()})
        if time.time() - saved > args.save_every:
            torch.save({k: v.half() for k, v in student.state_dict().items()}, out / "checkpoint.tmp")
            os.replace(out / "checkpoint.tmp", out / "checkpoint.pt")
            saved = time.time()
    curve.append({"done": 1.0, "step": step, **validate()})
    torch.save({k: v.half() for k, v in student.state_dict().items()}, out / "student.pt")
    (out / "curve.json").write_text(json.dumps({"steps": step, "graded": graded_seen, "seconds": args.seconds, "curve": curve}, indent=1))
    log("trained", step, "steps")
    pool.terminate()

    if args.eval:
        folder = Path(args.eval) / "flores200_devtest"
        vectors = {p.stem: embed_all(student, Flat.encode(tok, p.read_text(encoding="utf8").rstrip("\n").split("\n"), device)) for p in sorted(folder.glob("*.txt"))}
        report = {}
        for d in (384, 256, 128, 64):
            cut = {l: unit(v[:, :d]) for l, v in vectors.items()}
            g, k = cut.pop("eng"), torch.arange(1012, device=device)
            report[d] = {l: float((((v @ g.T).argmax(1) == k).float().mean() + ((g @ v.T).argmax(1) == k).float().mean()) / 2) for l, v in cut.items()}
        (out / "flores.json").write_text(json.dumps(report, indent=1))
        af = "swh hau yor ibo zul xho amh som kin lug lin sna afr sot tsn nya gaz tir wol bem ewe twi plt run tso nso ssw luo kab fon bam".split()
        for d, acc in report.items():
            log("FLORES", d, "African", round(float(np.mean([acc[l] for l in af])), 4))
        log({l: round(v, 3) for l, v in report[384].items()})
    log("done")


if __name__ == "__main__":
    main()
