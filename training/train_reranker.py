"""Train rerankers of several sizes on the same lists of passages, with scores distilled from encoders.

    python train_reranker.py --prepared PREPARED --teachers TEACHERS --out OUT --sizes 2+2,5+3 --seconds 700 [--eval EVAL --candidates candidates.json]

TEACHERS has gte.npz, bge.npz and their tokenizer.json, and multilingual.npz with multilingual.json, from which the rerankers start. The
passages of a list are those of one collection that the teachers rank near the top. Its target is a mix of the label, of late interaction
and cosine by the English teachers for the English of the query, and of what baobab/rerank-multilingual would say."""
import argparse
import json
import multiprocessing
import sys
from pathlib import Path

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

import loop
from loop import log
from model import Bert, cls_pool, load_bert, mean_pool, read_weights
from pair_model import Pairs, PairScorer
from tokens import encode_on, gathered

Q_TOKENS, P_TOKENS, LIST, LISTS, MINED = 64, 192, 10, 64, 48
# Collections that are searched together.
POOLS = {"selqa": "afriqa"}
SHARES = {"afriqa": 0.25, "rewritten": 0.13, "sentence": 0.22, "other": 0.06, "english": 0.34}
HELD_QUERIES, HELD_PASSAGES = 150, 30


class Encoded:
    """A collection read by one encoder: unit vectors of all tokens one after the other, and of the texts."""

    def __init__(self, model, ids, lengths, pool, device, batch=1024):
        self.n, self.at = torch.from_numpy(lengths).to(device), torch.from_numpy(np.cumsum(lengths) - lengths).to(device)
        self.ids = torch.from_numpy(ids).to(device)
        self.tokens = torch.empty(len(ids), 384, dtype=torch.half, device=device)
        self.texts = torch.empty(len(lengths), 384, device=device)
        order = torch.argsort(self.n)
        for i in range(0, len(lengths), batch):
            j = order[i:i + batch]
            at, mask = self.places(j)
            with torch.no_grad(), torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
                x = model(torch.where(mask, self.ids[at], 0).long(), mask).float()
            self.texts[j] = F.normalize(pool(x, mask), dim=-1)
            self.tokens[at[mask]] = F.normalize(x, dim=-1)[mask].half()

    def places(self, texts):
        a = torch.arange(int(self.n[texts].max()), device=self.n.device)[None]
        return (self.at[texts][:, None] + a).clamp(max=len(self.ids) - 1), a < self.n[texts][:, None]


def matches(queries, passages, q, p, weight):
    """Of query q[b] with passages p[b, n]: late interaction, cosine, and the share of the weight of its words that a passage has."""
    at, mask = queries.places(q)
    other, there = passages.places(p.reshape(-1))
    wide = lambda x: x.view(*p.shape, *x.shape[1:])
    alike = torch.einsum("bqd,bnpd->bnqp", queries.tokens[at], wide(passages.tokens[other])).float()
    best = alike.masked_fill(~wide(there)[:, :, None], -2).amax(3)
    late = (best * mask[:, None]).sum(2) / mask.sum(1)[:, None]
    cosine = torch.einsum("bd,bnd->bn", queries.texts[q], passages.texts[p])
    ids, others = queries.ids[at], wide(torch.where(there, passages.ids[other], -1))
    inner = mask & (torch.arange(at.shape[1], device=at.device) > 0) & (torch.arange(at.shape[1], device=at.device) < mask.sum(1, keepdim=True) - 1)
    found = (ids[:, None, :, None] == others[:, :, None]).any(3)
    w = weight[ids.long()] * inner
    return late, cosine, (found * w[:, None]).sum(2) / w.sum(1).clamp(min=1e-6)[:, None]


def standard(s):
    return (s - s.mean(1, keepdim=True)) / s.std(1, keepdim=True).clamp(min=1e-4)


def main():
    args = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    args.add_argument("--prepared", required=True)
    args.add_argument("--teachers", required=True)
    args.add_argument("--out", required=True)
    args.add_argument("--eval")
    args.add_argument("--candidates", help="of the English sets, from evaluate/baseline.py")
    args.add_argument("--sizes", default="2+2,5+3", help="layers of each part, and across")
    args.add_argument("--seconds", type=float, default=700)
    args.add_argument("--steps", type=int, default=0, help="instead of a time")
    args.add_argument("--lr", type=float, default=2e-4)
    args.add_argument("--limit", type=int, default=0, help="rows, for a trial")
    args = args.parse_args()
    out, teachers = Path(args.out), Path(args.teachers)
    out.mkdir(parents=True, exist_ok=True)
    device = loop.start()
    torch.backends.cudnn.allow_tf32 = True

    rows = [json.loads(l) for l in open(Path(args.prepared) / "rows.jsonl", encoding="utf8")]
    passages = json.loads((Path(args.prepared) / "passages.json").read_text(encoding="utf8"))
    if args.limit:
        rows = rows[:: max(1, len(rows) // args.limit)]
        kept = {p: i for i, p in enumerate(sorted({r["passage"] for r in rows}))}
        passages = [passages[p] for p in kept]
        for r in rows:
            r["passage"] = kept[r["passage"]]
    english, queries = {}, {}
    for r in rows:
        r["q"] = queries.setdefault(r["query"], len(queries))
        r["e"] = english.setdefault(r["english"], len(english)) if r["english"] else -1
    tests = test_sets(args) if args.eval else {}

    specs = {"english": (teachers / "tokenizer.json").read_text(), "ours": (teachers / "multilingual.json").read_text()}
    with multiprocessing.Pool() as pool:
        ask = lambda name, limit, texts: encode_on(pool, name, specs[name], limit, texts)
        pending = {"p ours": ask("ours", P_TOKENS, passages), "q ours": ask("ours", Q_TOKENS, list(queries)),
                   "p english": ask("english", P_TOKENS, passages), "q english": ask("english", Q_TOKENS, list(english))}
        for name, (asked, texts, *_) in tests.items():
            pending[f"test q {name}"], pending[f"test p {name}"] = ask("ours", 128, asked), ask("ours", 380, texts)
        ids = {name: gathered(p) for name, p in pending.items()}
    log("rows", len(rows), "passages", len(passages), "English texts", len(english), "tokens", {n: len(i[0]) for n, i in ids.items()})

    weights = read_weights(teachers / "multilingual.npz")
    vocab = len(weights["embeddings.word_embeddings.weight"])

    def encoder(name, layers):
        if name != "ours":
            return load_bert(Bert(30522, layers), read_weights(teachers / f"{name}.npz")).to(device).eval()
        whole = load_bert(Bert(vocab, layers, head=True), weights)
        whole.head.weight.data.copy_(weights["head.weight"])
        return whole.to(device).eval()

    def frequencies(name, size):
        token, n = ids[f"p {name}"]
        seen = np.unique(np.repeat(np.arange(len(n)), n).astype(np.int64) * size + token) % size
        return torch.from_numpy(np.log((len(n) + 1) / (np.bincount(seen, minlength=size) + 1))).float().clamp(min=0.05).to(device)

    idf, idf_ours, even = frequencies("english", 30522), frequencies("ours", vocab), torch.ones(vocab, device=device)
    known = {}
    for name, layers, pool, side in (("gte", 12, mean_pool, "english"), ("bge", 12, cls_pool, "english"), ("ours", 10, mean_pool, "ours")):
        model = encoder(name, layers)
        known[name] = [Encoded(model, *ids[f"{k} {side}"], pool, device) for k in "qp"]
        log("read by", name)
    tokens = torch.cat([known["ours"][0].ids, known["ours"][1].ids])
    targets = lambda source: torch.where((source < len(ids["q ours"][0]))[:, None], *(
        known["ours"][k].tokens[(source - k * len(ids["q ours"][0])).clamp(0, len(known["ours"][k].tokens) - 1)] for k in (0, 1)))
    parts = [(np.cumsum(n) - n + first, n) for n, first in ((ids["q ours"][1], 0), (ids["p ours"][1], len(ids["q ours"][0])))]

    column = lambda f: torch.tensor([f(r) for r in rows], device=device)
    q_of, e_of, pos = column(lambda r: r["q"]), column(lambda r: r["e"]), column(lambda r: r["passage"])

    def said(r, p):
        """By each teacher, standardised over a list: the English ones together (0 without an English query), and ours."""
        late, cosine, words = matches(*known["ours"], q_of[r], p, even)
        ours = standard(0.6 * late + 0.25 * cosine + 0.15 * words)
        total = torch.zeros_like(ours)
        has = e_of[r] >= 0
        for name in ("gte", "bge"):
            late, cosine, words = matches(*known[name], e_of[r].clamp(min=0), p, idf)
            total += standard(10 * cosine + 30 * late + 2 * words) / 2
        return torch.where(has[:, None], total, 0), ours, has

    # ---- the passages of each list
    pool_of = [POOLS.get(r["kind"], r["kind"]) for r in rows]
    mined = torch.zeros(len(rows), MINED, dtype=torch.long, device=device)
    for name in sorted(set(pool_of)):
        members = torch.tensor([i for i, k in enumerate(pool_of) if k == name], device=device)
        docs = torch.unique(pos[members])
        for i in range(0, len(members), 1024):
            m = members[i:i + 1024]
            s = standard(known["ours"][0].texts[q_of[m]] @ known["ours"][1].texts[docs].T)
            for teacher in ("gte", "bge"):
                q, p = known[teacher]
                s = s + torch.where(e_of[m][:, None] >= 0, standard(q.texts[e_of[m].clamp(min=0)] @ p.texts[docs].T), 0)
            s[docs[None] == pos[m][:, None]] = -1e4
            top = docs[s.topk(min(MINED, len(docs) - 1), 1).indices]
            mined[m] = top[:, torch.arange(MINED, device=device) % top.shape[1]]
    log("passages mined")

    held = column(lambda r: r["validation"])
    group = lambda r: ("sentence" if r["kind"] == "sentence" else "english" if r["lang"] == "en" else "afriqa" if r["kind"] == "afriqa"
                       else "rewritten" if r["english"] else "other")
    groups, kinds = [group(r) for r in rows], [r["kind"] for r in rows]
    count, inside = {}, {}
    for g, k, v in zip(groups, kinds, held.tolist()):
        if not v:
            count[g, k] = count.get((g, k), 0) + 1
    for (g, k), n in count.items():
        inside[g] = inside.get(g, 0) + n ** 0.5
    share = np.array([0 if v else SHARES[g] * count[g, k] ** -0.5 / inside[g] for g, k, v in zip(groups, kinds, held.tolist())])
    draw = loop.Draw(share, np.random.default_rng(0))
    is_sentence = torch.tensor([k == "sentence" for k in kinds], device=device)

    models = nn.ModuleList(PairScorer(vocab, *map(int, size.split("+"))).start(weights, idf_ours.cpu()) for size in args.sizes.split(",")).to(device)
    names = args.sizes.split(",")
    log("parameters", [sum(p.numel() for p in m.parameters()) for m in models])

    def pairs(q, p):
        return Pairs(tokens, (parts[0][0][q], parts[0][1][q]), (parts[1][0][p], parts[1][1][p]))

    @torch.no_grad()
    def scores(model, make, q, p, batch=512):
        """Of query q[i] with passage p[i]; `make` turns numbers into pairs."""
        model.eval()
        s = np.concatenate([model.packed(make(q[i:i + batch], p[i:i + batch]))[0].float().cpu().numpy() for i in range(0, len(q), batch)])
        model.train()
        return s

    kind_of = lambda r: r["kind"] if r["kind"] != "afriqa" else "afriqa " + (r["lang"] if r["lang"] in ("en", "fr") else "African")
    checked = {}
    for i in np.random.default_rng(1).permutation(len(rows)):
        if rows[i]["validation"]:
            some = checked.setdefault(kind_of(rows[i]), [])
            if len(some) < (HELD_QUERIES if "African" not in kind_of(rows[i]) else 10000):
                some.append(int(i))

    def ndcg_first(s):
        return 1 / np.log2(2 + (s > s[:, :1]).sum(1) + ((s == s[:, :1]).sum(1) - 1) / 2)

    def validate(done=0, step=0):
        table = {}
        for kind, some in sorted(checked.items()):
            r = torch.tensor(some, device=device)
            p = torch.cat([pos[r][:, None], mined[r][:, :HELD_PASSAGES - 1]], 1)
            if done == 0:
                e, ours, _ = (torch.cat(x) for x in zip(*(said(r[i:i + 64], p[i:i + 64]) for i in range(0, len(r), 64))))
                table[kind] = [len(r)] + [round(float(ndcg_first(x.cpu().numpy()).mean()), 3) for x in (e, ours)]
                continue
            q, flat = q_of[r].repeat_interleave(p.shape[1]).cpu().numpy(), p.reshape(-1).cpu().numpy()
            table[kind] = [round(float(ndcg_first(scores(m, pairs, q, flat).reshape(p.shape)).mean()), 3) for m in models]
        log("validation", "rows, English teachers, ours" if done == 0 else names, table, "mix", [[round(x, 1) for x in m.mix.tolist()] for m in models])
        if done:
            for name, m in zip(names, models):
                loop.save(m, out / f"{name}.pt")

    def loss_of():
        r = torch.from_numpy(draw(LISTS)).to(device)
        picks = torch.rand(LISTS, MINED, device=device).argsort(1)[:, :LIST - 1]
        picks = torch.where(torch.rand(picks.shape, device=device) < 0.5, picks % 12, picks)  # half of them from the hardest
        p = torch.cat([pos[r][:, None], mined[r].gather(1, picks)], 1)
        with torch.no_grad():
            e, ours, has = said(r, p)
            both = torch.where(has[:, None], 0.75 * e + 0.25 * ours, ours)
            goal = 2 * both
            goal[:, 0] += torch.where(is_sentence[r], 0.5, 2.0)
            goal = F.softmax(goal, 1)
            # A passage that the teachers put above the labelled one may be right as well.
            doubt = both > both[:, :1] + torch.where(is_sentence[r], -0.3, 0.3)[:, None]
            twin = p == p[:, :1]
            twin[:, 0] = doubt[:, 0] = False
        these = pairs(q_of[r].repeat_interleave(LIST).cpu().numpy(), p.reshape(-1).cpu().numpy())
        wanted = targets(these.source).float()
        label = torch.zeros(LISTS, dtype=torch.long, device=device)
        right = F.one_hot(label, LIST).float()
        total = 0
        for model in models:
            s, u = model.packed(these)
            s = s.view(LISTS, LIST)
            total = total + F.kl_div(F.log_softmax(s.masked_fill(twin, -30), 1), goal, reduction="batchmean")
            total = total + 0.3 * F.cross_entropy(s.masked_fill(doubt | twin, -30), label)
            # Where the best score lies is for the loss above; that right ones are above zero, for this.
            total = total + 0.05 * F.binary_cross_entropy_with_logits(s, right, weight=(~(doubt | twin)).float())
            total = total + (1 - F.cosine_similarity(u, wanted, dim=-1)).mean()
        return total

    opt = torch.optim.AdamW([
        {"params": [p for n, p in models.named_parameters() if p.ndim >= 2 and "idf" not in n], "peak": args.lr, "weight_decay": 0.01},
        {"params": [p for n, p in models.named_parameters() if p.ndim < 2 and "mix" not in n], "peak": args.lr, "weight_decay": 0.0},
        {"params": [p for n, p in models.named_parameters() if "mix" in n or "idf" in n], "peak": 5e-3, "weight_decay": 0.0},
    ], lr=1e-5, betas=(0.9, 0.98), fused=device.type == "cuda")
    validate()
    step = loop.train(models, opt, loss_of, args.seconds, 200, args.steps, (0.15, 0.4, 0.7), validate)
    validate(1, step)
    log("steps", step)

    figures = {}
    for name, (asked, texts, wanted, order) in tests.items():
        from metrics import ndcg

        (q_ids, q_n), (p_ids, p_n) = ids[f"test q {name}"], ids[f"test p {name}"]
        q, p = (Encoded(model, *ids[f"test {k} {name}"], mean_pool, device) for k in "qp")  # the last teacher: ours
        if order is None:
            order = torch.cat([(q.texts[i:i + 256] @ p.texts.T).topk(50, 1).indices for i in range(0, len(q.texts), 256)]).cpu().numpy()
        ours = np.concatenate([(lambda l, c, w: 0.6 * l + 0.25 * c + 0.15 * w)(*matches(q, p, torch.arange(i, min(i + 16, len(order)), device=device),
                               torch.from_numpy(order[i:i + 16]).to(device), even)).cpu().numpy() for i in range(0, len(order), 16)])
        both = torch.cat([q.ids, p.ids])
        q_at, p_at = np.cumsum(q_n) - q_n, np.cumsum(p_n) - p_n + len(q_ids)
        make = lambda a, b: Pairs(both, (q_at[a], q_n[a]), (p_at[b], p_n[b]))
        by = lambda s: round(float(np.mean([ndcg(o[np.argsort(-x, kind="stable")], w) for o, x, w in zip(order, s, wanted)])), 4)
        figures[name] = {"as found": round(float(np.mean([ndcg(o, w) for o, w in zip(order, wanted)])), 4), "rerank-multilingual": by(ours)}
        for size, m in zip(names, models):
            figures[name][size] = by(scores(m, make, np.repeat(np.arange(len(order)), order.shape[1]), order.reshape(-1), 256).reshape(order.shape))
        log(name, "nDCG@10", figures[name])
    (out / "figures.json").write_text(json.dumps(figures, indent=1))
    log("done")


def test_sets(args):
    """Read for the report only: nothing is chosen by them. AfriQA has the passages that are nearest by our encoder."""
    sys.path.insert(0, str(Path(__file__).parent / "evaluate"))
    import sets

    known = json.loads(Path(args.candidates).read_text())
    return {name: (*sets.retrieval(args.eval, name), np.array(known[name]["candidates"]) if name in known else None)
            for name in ("afriqa", "afriqa-translated", *known)}


if __name__ == "__main__":
    main()
