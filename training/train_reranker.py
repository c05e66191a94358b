"""Train the reranker on query-passage rows with mined hard negatives and scores distilled from bi-encoders.

    python train_reranker.py --rows rows.jsonl --teachers TEACHERS --out OUT --seconds 300 [--eval EVAL --candidates candidates.json]

Negatives are the passages of the same collection that three bi-encoders together rank near the top. The target for
each list is a mix of the label and of what the bi-encoders and the overlap of weighted words say."""
import argparse
import copy
import json
import math
import os
import time
from pathlib import Path

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from tokenizers import Tokenizer

from model import Bert, Flat, cls_pool, embed_all, load_bert, mean_pool, read_weights
from pair_model import PairScorer

T0 = time.time()
Q_TOKENS, P_TOKENS, LIST, MINED = 64, 192, 8, 48
VALIDATION_PER_FILE = 150


def log(*a):
    print(f"[{time.time() - T0:7.1f}]", *a, flush=True)


def main():
    args = argparse.ArgumentParser()
    args.add_argument("--rows", required=True)
    args.add_argument("--teachers", required=True)
    args.add_argument("--out", required=True)
    args.add_argument("--eval")
    args.add_argument("--candidates")
    args.add_argument("--seconds", type=float, default=300)
    args.add_argument("--batch", type=int, default=64, help="queries per step")
    args.add_argument("--lr", type=float, default=2e-5)
    args.add_argument("--top-lr", type=float, default=2e-4)
    args.add_argument("--start", default="bge", help="the bi-encoder whose weights the reranker starts from")
    args.add_argument("--limit", type=int, default=0)
    args = args.parse_args()
    out = Path(args.out)
    out.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(0)
    np.random.seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    cast = lambda: torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda")

    rows = [json.loads(l) for l in open(args.rows, encoding="utf8")]
    if args.limit:
        rows = rows[:: max(1, len(rows) // args.limit)]
    texts, place = [], {}
    for r in rows:
        for t in [r["pos"]] + r.get("neg", []):
            if t not in place:
                place[t] = len(texts)
                texts.append(t)
    pos = torch.tensor([place[r["pos"]] for r in rows], device=device)
    files = sorted({r["file"] for r in rows})
    file_of = torch.tensor([files.index(r["file"]) for r in rows], device=device)
    home = torch.full((len(texts),), -1, device=device)
    home[pos] = file_of
    for r, f in zip(rows, file_of.tolist()):
        for t in r.get("neg", []):
            home[place[t]] = f
    tok = Tokenizer.from_file(str(Path(args.teachers) / "tokenizer.json"))
    tok.no_padding()
    tok.enable_truncation(Q_TOKENS)
    fq = Flat.encode(tok, [r["query"] for r in rows], device)
    tok.enable_truncation(P_TOKENS)
    fp = Flat.encode(tok, texts, device)
    log("rows", len(rows), "passages", len(texts), "files", files)

    # ---- how much a word tells: inverse document frequency over the passages
    owner = torch.repeat_interleave(torch.arange(len(fp), device=device), fp.n)
    seen = torch.unique(owner * 30522 + fp.ids.long())
    df = torch.bincount(seen % 30522, minlength=30522).float()
    idf = torch.log((len(fp) + 1) / (df + 1)).clamp(min=0.05)

    # ---- what the bi-encoders say
    qv, pv = [], []
    for name, layers, pool in (("minilm", 6, mean_pool), ("gte", 12, mean_pool), ("bge", 12, cls_pool)):
        weights = read_weights(Path(args.teachers) / f"{name}.npz")
        teacher = load_bert(Bert(30522, layers), weights).to(device).eval()
        big = 1024 if device.type == "cuda" else 32
        p = embed_all(teacher, fp, pool, big)
        centre = p.mean(0)
        qv.append(F.normalize(embed_all(teacher, fq, pool, big) - centre, dim=-1).half())
        pv.append(F.normalize(p - centre, dim=-1).half())
        if name == args.start:
            start = weights
        log("scored by", name)
    if device.type == "cpu":
        qv, pv = [x.float() for x in qv], [x.float() for x in pv]

    mined = torch.zeros(len(rows), MINED, dtype=torch.long, device=device)
    for f in range(len(files)):
        members = torch.nonzero(file_of == f)[:, 0]
        docs = torch.nonzero(home == f)[:, 0]
        for i in range(0, len(members), 2048):
            m = members[i:i + 2048]
            s = sum(q[m] @ p[docs].T for q, p in zip(qv, pv)).float()
            k = min(MINED + 1, len(docs))
            top = docs[s.topk(k, 1).indices]
            keep = top != pos[m][:, None]
            # the positive is dropped; the rest keep their order
            order = torch.argsort((~keep).int(), dim=1, stable=True)
            top = top.gather(1, order)[:, :k - 1]
            mined[m] = top[:, torch.arange(MINED, device=device) % (k - 1)]
    log("negatives mined")

    def teacher_scores(r, p):
        """r: [b] rows, p: [b, n] passages -> mean of standardised scores [b, n]."""
        total = 0
        for q, v in zip(qv, pv):
            s = (q[r][:, None].float() * v[p].float()).sum(-1)
            total = total + (s - s.mean(1, keepdim=True)) / s.std(1, keepdim=True).clamp(min=1e-4)
        a, am = fq.batch(r)
        b, bm = fp.batch(p.reshape(-1))
        w = idf[a] * (a > 999) * am
        hit = torch.stack([((a[i][None, :, None] == b.view(*p.shape, -1)[i][:, None]).any(2)) for i in range(len(r))])
        s = (hit * w[:, None]).sum(2) / w.sum(1, keepdim=True).clamp(min=1e-6)
        lexical = (s - s.mean(1, keepdim=True)) / s.std(1, keepdim=True).clamp(min=1e-4)
        return total / len(qv), lexical

    def pairs(r, p, q_src=None, p_src=None):
        """[CLS] query [SEP] passage [SEP] for every (row, passage) pair, gathered on the device."""
        qs, ps = q_src or fq, p_src or fp
        nq, np_ = qs.n[r], ps.n[p] - 1
        n = nq + np_
        a = torch.arange(int((int(n.max()) + 7) // 8 * 8), device=device)[None]
        src_q = qs.ids[(qs.off[r][:, None] + a).clamp(max=qs.ids.numel() - 1)].long()
        src_p = ps.ids[(ps.off[p][:, None] + a - nq[:, None] + 1).clamp(0, ps.ids.numel() - 1)].long()
        mask, types = a < n[:, None], a >= nq[:, None]
        ids = torch.where(types, src_p, src_q) * mask
        return ids, mask.long(), (types & mask).long()

    model = PairScorer().start(start, torch.log(torch.expm1(idf.cpu().clamp(min=0.05)))).to(device)
    anchor = copy.deepcopy(model).eval()  # what the model says before training is one of the teachers
    log("parameters", sum(x.numel() for x in model.parameters()))

    # ---- validation: whole groups of rows held back, every file
    groups, rng = {}, np.random.default_rng(0)
    for i, r in enumerate(rows):
        groups.setdefault((r["file"], r.get("group", "")), []).append(i)
    held, count = set(), {}
    keys = list(groups)
    for g in rng.permutation(len(keys)):
        members = groups[keys[g]]
        if count.get(keys[g][0], 0) < (VALIDATION_PER_FILE if not args.limit else 4) and len(members) <= 60:
            held.update(members)
            count[keys[g][0]] = count.get(keys[g][0], 0) + len(members)
    held_rows = torch.tensor(sorted(held), device=device)
    train_rows = torch.tensor([i for i in range(len(rows)) if i not in held], device=device)
    per_file = torch.bincount(file_of[train_rows], minlength=len(files)).float()
    prob = (per_file.clamp(min=1) ** -0.5)[file_of[train_rows]]
    prob = prob / prob.sum()
    log("train", len(train_rows), "validation", len(held_rows), count)

    @torch.no_grad()
    def score(r, p, q_src=None, p_src=None, batch=512):
        model.eval()
        s = torch.empty(len(r), device=device)
        qs, ps = q_src or fq, p_src or fp
        order = torch.argsort(qs.n[r] + ps.n[p])
        for i in range(0, len(r), batch):
            j = order[i:i + batch]
            with cast():
                s[j] = model(*pairs(r[j], p[j], q_src, p_src))[:, 0].float()
        model.train()
        return s

    def validate():
        n = 20
        p = torch.cat([pos[held_rows][:, None], mined[held_rows][:, :n - 1]], 1)
        s = score(held_rows.repeat_interleave(n), p.reshape(-1)).view(-1, n)
        b = sum((q[held_rows][:, None].float() * v[p].float()).sum(-1) for q, v in zip(qv, pv))
        mrr = lambda x: (1 / ((x > x[:, :1]).sum(1) + 1).float())
        f = file_of[held_rows]
        ours, theirs = mrr(s), mrr(b)
        mean = lambda x: round(float(np.mean([float(x[f == i].mean()) for i in range(len(files)) if (f == i).any()])), 4)
        log("validation MRR", mean(ours), "bi-encoders together", mean(theirs), {files[i]: round(float(ours[f == i].mean()), 3) for i in range(len(files)) if (f == i).any()},
            "mix", [round(x, 2) for x in model.mix.tolist()])
        return mean(ours)

    tests = {}

    def load_tests():
        import sys
        sys.path.insert(0, str(Path(__file__).parent / "evaluate"))
        import sets

        for name, entry in json.loads(Path(args.candidates).read_text()).items():
            queries, passages, wanted = sets.retrieval(args.eval, name)
            tok.enable_truncation(128)
            a = Flat.encode(tok, queries, device)
            tok.enable_truncation(380)
            tests[name] = a, Flat.encode(tok, passages, device), wanted, torch.tensor(entry["candidates"], device=device)

    def test(tag):
        """Held-out figures, for the report only: nothing is chosen by them."""
        from metrics import ndcg

        found = {}
        for name, (a, b, wanted, cand) in tests.items():
            r = torch.arange(len(cand), device=device).repeat_interleave(cand.shape[1])
            s = score(r, cand.reshape(-1), a, b, 256).view(cand.shape)
            order = cand.gather(1, torch.argsort(-s, dim=1, stable=True)).cpu().numpy()
            found[name] = round(float(np.mean([ndcg(o, w) for o, w in zip(order, wanted)])), 4)
        log(tag, "nDCG@10", found)
        return found

    top = [p for n, p in model.named_parameters() if n.startswith(("cross", "read"))]
    scalars = [model.mix, model.bias, model.idf.weight]
    base = [p for n, p in model.named_parameters() if n.startswith("bert")]
    opt = torch.optim.AdamW([{"params": base, "peak": args.lr, "weight_decay": 0.01}, {"params": top, "peak": args.top_lr, "weight_decay": 0.01},
                             {"params": scalars, "peak": 1e-2, "weight_decay": 0.0}], lr=1e-5, betas=(0.9, 0.98), fused=device.type == "cuda")
    history = [{"step": 0, "mrr": validate()}]
    model.train()
    began, step, mean_loss, checks = time.time(), 0, None, [0.35, 0.7]
    best, save = history[0]["mrr"], lambda: torch.save({k: v.half() for k, v in model.state_dict().items()}, out / "reranker.pt")
    save()
    while (done := (time.time() - began) / args.seconds) < 1:
        rate = min(1.0, (step + 1) / 100) * (0.02 + 0.98 * 0.5 * (1 + math.cos(math.pi * done)))
        for g in opt.param_groups:
            g["lr"] = g["peak"] * rate
        r = train_rows[torch.multinomial(prob, args.batch, True)]
        picks = torch.rand(args.batch, MINED, device=device).argsort(1)[:, : LIST - 1]
        picks = torch.where(torch.rand(picks.shape, device=device) < 0.5, picks % 12, picks)  # half from the hardest
        p = torch.cat([pos[r][:, None], mined[r].gather(1, picks)], 1)
        with torch.no_grad():
            dense, lexical = teacher_scores(r, p)
            inputs = pairs(r.repeat_interleave(LIST), p.reshape(-1))
            with cast():
                own = anchor(*inputs).float().view(-1, LIST)
            own = (own - own.mean(1, keepdim=True)) / own.std(1, keepdim=True).clamp(min=1e-4)
            goal = dense + own + 0.3 * lexical
            goal[:, 0] += 2.0
            goal = F.softmax(goal, 1)
            # a "negative" that all teachers put clearly above the labelled passage is left out of the label loss
            doubt = dense > dense[:, :1] + 0.3
            twin = p == p[:, :1]
            twin[:, 0] = doubt[:, 0] = False
        with cast():
            s = model(*inputs)
        s = s.float().view(-1, LIST)
        loss = F.kl_div(F.log_softmax(s.masked_fill(twin, -30), 1), goal, reduction="batchmean")
        loss = loss + 0.3 * F.cross_entropy(s.masked_fill(doubt | twin, -30), torch.zeros(len(r), dtype=torch.long, device=device))
        opt.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        step += 1
        mean_loss = loss.detach() if mean_loss is None else mean_loss * 0.98 + loss.detach() * 0.02
        if step % 200 == 0:
            log("step", step, "loss", round(float(mean_loss), 4), "done", round(done, 3))
        if checks and done > checks[0]:
            checks.pop(0)
            history.append({"step": step, "mrr": validate()})
            if history[-1]["mrr"] > best:
                best = history[-1]["mrr"]
                save()
    history.append({"step": step, "mrr": validate()})
    if history[-1]["mrr"] >= best:
        save()
    (out / "history.json").write_text(json.dumps({"history": history, "steps": step, "seconds": args.seconds}, indent=1))
    model.load_state_dict({k: v.float() for k, v in torch.load(out / "reranker.pt").items()})
    if not (args.eval and args.candidates):
        return log("done")
    for _ in range(300):  # the candidates may still be being made
        if Path(args.candidates).exists():
            break
        time.sleep(1)
    load_tests()
    figures = test("trained")
    plain = PairScorer().start(start, torch.log(torch.expm1(idf.cpu().clamp(min=0.05)))).to(device)
    model.load_state_dict(plain.state_dict())
    figures = {"trained": figures, "before training": test("before training")}
    (out / "figures.json").write_text(json.dumps(figures, indent=1))
    log("done")


if __name__ == "__main__":
    main()
