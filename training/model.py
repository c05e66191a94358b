"""A BERT encoder small enough to read, and loading of published weights into it."""
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.attention.varlen import varlen_attn


def text_by_text(q, k, v, starts):
    """varlen_attn on a CPU, slowly: for trials of a few steps."""
    parts = zip(*(t.split(starts.diff().tolist()) for t in (q, k, v)))
    return torch.cat([F.scaled_dot_product_attention(*(t.transpose(0, 1) for t in part)).transpose(0, 1) for part in parts])


class Layer(nn.Module):
    def __init__(self, width=384, heads=12, inner=1536, dropout=0.1):
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.q, self.k, self.v, self.o = (nn.Linear(width, width) for _ in range(4))
        self.ln1 = nn.LayerNorm(width, eps=1e-12)
        self.f1, self.f2 = nn.Linear(width, inner), nn.Linear(inner, width)
        self.ln2 = nn.LayerNorm(width, eps=1e-12)

    def forward(self, x, bias):
        b, l, d = x.shape
        split = lambda t: t.view(b, l, self.heads, d // self.heads).transpose(1, 2)
        q, k, v = split(self.q(x)), split(self.k(x)), split(self.v(x))
        a = F.scaled_dot_product_attention(q, k, v, attn_mask=bias.to(q.dtype))
        a = self.o(a.transpose(1, 2).reshape(b, l, d))
        return self.finish(x, a)

    def finish(self, x, a):
        x = self.ln1(x + F.dropout(a, self.dropout, self.training))
        return self.ln2(x + F.dropout(self.f2(F.gelu(self.f1(x))), self.dropout, self.training))

    def packed(self, x, starts, longest):
        """The same for tokens of many texts in one row (see packing.py)."""
        weight = torch.cat([self.q.weight, self.k.weight, self.v.weight])
        q, k, v = F.linear(x, weight, torch.cat([self.q.bias, self.k.bias, self.v.bias])).view(len(x), 3, self.heads, -1).unbind(1)
        a = varlen_attn(q, k, v, starts, starts, longest, longest) if x.is_cuda else text_by_text(q, k, v, starts)
        return self.finish(x, self.o(a.reshape(len(x), -1)))


class Bert(nn.Module):
    """Token ids and mask in, one vector per token out. `head` turns the output to the basis of the targets."""

    def __init__(self, vocab, layers=6, width=384, head=False, dropout=0.1, positions=512):
        super().__init__()
        self.dropout = dropout
        self.word, self.pos, self.typ = nn.Embedding(vocab, width), nn.Embedding(positions, width), nn.Embedding(2, width)
        self.ln = nn.LayerNorm(width, eps=1e-12)
        self.layers = nn.ModuleList(Layer(width, dropout=dropout) for _ in range(layers))
        self.head = nn.Linear(width, width, bias=False) if head else None

    def embed(self, ids, types=None, positions=None):
        x = self.word(ids)
        x = x + (self.pos.weight[: ids.shape[1]][None] if positions is None else self.pos(positions))
        x = x + (self.typ.weight[0] if types is None else self.typ(types))
        return F.dropout(self.ln(x), self.dropout, self.training)

    def forward(self, ids, mask, types=None):
        x = self.embed(ids, types)
        bias = (1.0 - mask[:, None, None, :].to(x.dtype)) * -10000.0
        for layer in self.layers:
            x = layer(x, bias)
        return x if self.head is None else self.head(x)

    def means(self, pack, longest):
        """Mean vector of each text of a pack."""
        x = self.embed(pack.ids[None], positions=pack.positions[None])[0]
        for layer in self.layers:
            x = layer.packed(x.to(torch.bfloat16), pack.starts, longest)
        total = x.new_zeros(len(pack.lengths), x.shape[1], dtype=torch.float32).index_add_(0, pack.owner, x.float())
        mean = total / pack.lengths[:, None]
        return mean if self.head is None else self.head(mean)


def mean_pool(x, mask):
    m = mask[..., None].to(x.dtype)
    return (x * m).sum(1) / m.sum(1).clamp(min=1)


def cls_pool(x, mask):
    return x[:, 0]


def read_weights(path):
    """Weights written by teachers.py: matrices as int8 with one scale per row, the rest as float16."""
    z = np.load(path)
    out = {}
    for name in z.files:
        if name.endswith(".scale"):
            continue
        a = torch.from_numpy(z[name]).float()
        if name + ".scale" in z.files:
            a *= torch.from_numpy(z[name + ".scale"]).float()[:, None]
        out[name] = a
    return out


def load_bert(model, weights, words=True):
    """Fills a model from published weights. A model with fewer layers takes them evenly, the first and the last among them."""
    published = sum(name.endswith("attention.self.query.weight") for name in weights)

    def put(module, name):
        module.weight.data.copy_(weights[name + ".weight"])
        module.bias.data.copy_(weights[name + ".bias"])

    if words:
        model.word.weight.data.copy_(weights["embeddings.word_embeddings.weight"])
    model.pos.weight.data.copy_(weights["embeddings.position_embeddings.weight"][: model.pos.num_embeddings])
    model.typ.weight.data.copy_(weights["embeddings.token_type_embeddings.weight"])
    put(model.ln, "embeddings.LayerNorm")
    for i, layer in enumerate(model.layers):
        p = f"encoder.layer.{round(i * (published - 1) / (len(model.layers) - 1))}."
        put(layer.q, p + "attention.self.query")
        put(layer.k, p + "attention.self.key")
        put(layer.v, p + "attention.self.value")
        put(layer.o, p + "attention.output.dense")
        put(layer.ln1, p + "attention.output.LayerNorm")
        put(layer.f1, p + "intermediate.dense")
        put(layer.f2, p + "output.dense")
        put(layer.ln2, p + "output.LayerNorm")
    return model


class Flat:
    """Token ids of many texts in one array on the device; batches are gathered and padded there."""

    def __init__(self, ids, lengths, device):
        self.ids = torch.as_tensor(ids).to(device)
        self.n = torch.as_tensor(lengths).to(device)
        self.off = torch.cumsum(self.n, 0) - self.n

    @classmethod
    def encode(cls, tok, texts, device, chunk=100000):
        ids, lengths = encode(tok, texts, chunk)
        return cls(ids, lengths, device)

    def __len__(self):
        return len(self.n)

    def batch(self, index, extra=None):
        n, o = self.n[index], self.off[index]
        width = int((int(n.max()) + 7) // 8 * 8)
        a = torch.arange(width, device=n.device)[None]
        mask = a < n[:, None]
        return torch.where(mask, self.ids[(o[:, None] + a).clamp(max=self.ids.numel() - 1)].int(), 0).long(), mask


def encode(tok, texts, chunk=100000):
    parts, lengths = [], []
    for i in range(0, len(texts), chunk):
        for e in tok.encode_batch(texts[i:i + chunk]):
            parts.append(np.asarray(e.ids, dtype=np.int32))
            lengths.append(len(e.ids))
    return np.concatenate(parts), np.asarray(lengths, dtype=np.int64)


@torch.no_grad()
def embed_all(model, flat, pool=mean_pool, batch=4096, normalise=True):
    was = model.training
    model.eval()
    device = flat.n.device
    order = torch.argsort(flat.n, descending=True)
    out = None
    for i in range(0, len(flat), batch):
        j = order[i:i + batch]
        ids, mask = flat.batch(j)
        with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
            h = model(ids, mask)
        v = pool(h.float(), mask)
        if out is None:
            out = torch.empty(len(flat), v.shape[1], device=device)
        out[j] = F.normalize(v, dim=-1) if normalise else v
    model.train(was)
    return out


def ranks(x):
    x = np.asarray(x, dtype=float)
    _, inverse, count = np.unique(x, return_inverse=True, return_counts=True)
    return (np.cumsum(count) - (count - 1) / 2)[inverse]


def spearman(a, b):
    return float(np.corrcoef(ranks(a), ranks(b))[0, 1])
