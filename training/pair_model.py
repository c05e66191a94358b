"""The reranker: one score for a query and a passage read together.

    [CLS] query [SEP] passage [SEP]      token types 0 for the query part, 1 for the passage part

The lower layers are taken from our sentence encoder and let each part attend to itself; the upper layers attend across both parts. The
score is a weighted sum of the cosine of both parts, the best match of each query token among passage tokens before and after the upper
layers, the weight of query words that occur in the passage, and a reading of the first token."""
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

from model import Bert, Layer, load_bert

HIDDEN = -10000.0


class PairScorer(nn.Module):
    def __init__(self, vocab, own, cross, cls=2, width=384, dropout=0.1):
        super().__init__()
        self.cls = cls
        self.bert = Bert(vocab, own, width, head=True, dropout=dropout)
        self.cross = nn.ModuleList(Layer(width, dropout=dropout) for _ in range(cross))
        self.read = nn.Sequential(nn.Linear(width, width), nn.Tanh(), nn.Linear(width, 1))
        self.idf = nn.Embedding(vocab, 1)
        self.mix = nn.Parameter(torch.tensor([5.0, 20.0, 5.0, 2.0]))
        self.bias = nn.Parameter(torch.zeros(1))

    def start(self, weights, idf):
        """From an encoder with more layers: they are taken evenly, the first and the last among them."""
        whole = load_bert(Bert(self.idf.num_embeddings, len(self.bert.layers) + len(self.cross), head=True), weights)
        whole.head.weight.data.copy_(weights["head.weight"])
        whole.typ.weight.data[1] = whole.typ.weight.data[0]
        self.cross = whole.layers[len(self.bert.layers):]
        whole.layers = whole.layers[:len(self.bert.layers)]
        self.bert = whole
        nn.init.zeros_(self.read[2].weight)
        nn.init.zeros_(self.read[2].bias)
        self.idf.weight.data.copy_(torch.log(torch.expm1(idf.clamp(min=0.05)))[:, None])
        return self

    def score(self, cosine, own, across, lexical, first):
        return self.mix[0] * cosine + self.mix[1] * own + self.mix[2] * across + self.mix[3] * lexical + self.read(first)[:, 0] + self.bias

    def lexical(self, ids, others, q, p):
        """Share of the weight of the query's words that the passage has. Both sides are ids with their masks; [CLS] is no word."""
        same = ((ids[:, :, None] == others[:, None]).to(q.dtype) * p[:, None]).amax(2)
        weight = F.softplus(self.idf(ids).float())[..., 0] * q
        return (weight * same).sum(1) / weight.sum(1).clamp(min=1e-6)

    def forward(self, ids, mask, types):
        """As the exported graph computes it."""
        mask = mask.to(torch.float32)
        p = mask * types.to(torch.float32)
        place = torch.arange(ids.shape[1], device=ids.device)[None]
        n = (mask - p).sum(1, keepdim=True).to(torch.int64)      # length of [CLS] query [SEP]
        middle = (place == n - 1).to(mask.dtype)
        # The [SEP] between the parts opens the passage as its own [CLS], so each part is read as the encoder knows it.
        p, q = p + middle, mask - p - middle
        part = p.to(torch.int64)
        ids = ids + (self.cls - ids) * middle.to(ids.dtype)
        x = self.bert.embed(ids, part, (place - part * (n - 1)).clamp(min=0))
        own = q[:, :, None] * q[:, None] + p[:, :, None] * p[:, None]
        own = ((1.0 - own) * HIDDEN)[:, None].to(x.dtype)
        for layer in self.bert.layers:
            x = layer(x, own)
        alone = x
        every = ((1.0 - mask[:, None, None]) * HIDDEN).to(x.dtype)
        for layer in self.cross:
            x = layer(x, every)
        # At once, because a matrix that is used twice would not become int8.
        u, v = self.bert.head(torch.stack([alone, x]))

        def matched(u):
            u = F.normalize(u, dim=-1)
            best = (torch.matmul(u, u.transpose(1, 2)) + (1.0 - p[:, None]) * -2.0).amax(2)
            return (best * q).sum(1) / q.sum(1).clamp(min=1)

        mean = lambda part: F.normalize((u * part[:, :, None]).sum(1) / part.sum(1, keepdim=True).clamp(min=1), dim=-1)
        cosine = (mean(q) * mean(p)).sum(1)
        lexical = self.lexical(ids, ids, q * (place > 0).to(q.dtype), p)
        return self.score(cosine, matched(u), matched(v), lexical, x[:, 0])[:, None]

    def packed(self, pairs):
        """The same for the pairs of a step, without padding (see Pairs). Returns the scores and the vectors of all tokens before the upper layers."""
        with torch.autocast("cuda", torch.bfloat16, enabled=pairs.ids.is_cuda):
            x = self.bert.embed(pairs.ids[None], pairs.types[None], pairs.positions[None])[0]
            for layer in self.bert.layers:
                x = layer.packed(x.to(pairs.dtype), pairs.part_starts, pairs.longest_part)
            u = self.bert.head(x).float()
            for layer in self.cross:
                x = layer.packed(x.to(pairs.dtype), pairs.starts, pairs.longest)
            v = self.bert.head(x).float()

        def matched(u):
            u = F.normalize(u, dim=-1)
            alike = torch.matmul(pairs.of_queries(u), pairs.of_passages(u).transpose(1, 2))
            best = alike.masked_fill(~pairs.p[:, None], -2.0).amax(2)
            return (best * pairs.q).sum(1) / pairs.q.sum(1)

        total = u.new_zeros(2 * pairs.count, u.shape[1]).index_add_(0, pairs.part, u)
        means = F.normalize(total, dim=-1).view(-1, 2, u.shape[1])
        cosine = (means[:, 0] * means[:, 1]).sum(1)
        words, others = pairs.of_queries(pairs.ids), pairs.of_passages(pairs.ids)
        inner = pairs.q & (torch.arange(words.shape[1], device=words.device) > 0)
        lexical = self.lexical(words, others, inner.float(), pairs.p.float())
        return self.score(cosine, matched(u), matched(v), lexical, x[pairs.starts[:-1].long()].float()), u


class Pairs:
    """Tokens of many pairs in one row: [CLS] query, then [CLS] passage [SEP]. `texts` are (offset, length) of both parts in `tokens`;
    lengths are on the host, so that nothing waits for the device."""

    def __init__(self, tokens, queries, passages):
        device = tokens.device
        up = lambda a: torch.from_numpy(a).to(device, non_blocking=True)
        (q_at, q_n), (p_at, p_n) = queries, passages
        self.count = len(q_n)
        lengths, offsets = np.stack([q_n - 1, p_n], 1).reshape(-1), up(np.stack([q_at, p_at], 1).reshape(-1))
        total, n = int(lengths.sum()), up(lengths)
        ends = n.cumsum(0)
        begins = ends - n
        self.part = torch.repeat_interleave(torch.arange(len(lengths), device=device), n, output_size=total)
        self.positions = torch.arange(total, device=device) - begins[self.part]
        self.source = offsets[self.part] + self.positions
        self.ids, self.types = tokens[self.source].long(), self.part % 2
        self.part_starts = torch.cat([begins, ends[-1:]]).int()
        self.starts = self.part_starts[::2].contiguous()
        self.longest_part, self.longest = int(lengths.max()), int((q_n - 1 + p_n).max())
        self.dtype = torch.bfloat16 if tokens.is_cuda else torch.float32
        self.q_index, self.q = self.places(begins[::2], n[::2], int(lengths[::2].max()), total)
        self.p_index, self.p = self.places(begins[1::2], n[1::2], int(lengths[1::2].max()), total)

    @staticmethod
    def places(begins, n, longest, total):
        a = torch.arange(longest, device=n.device)[None]
        return (begins[:, None] + a).clamp(max=total - 1), a < n[:, None]

    def of_queries(self, x):
        return x[self.q_index]

    def of_passages(self, x):
        return x[self.p_index]
