"""The reranker: one score for a query and a passage read together.

    [CLS] query [SEP] passage [SEP]      token types 0 for the query part, 1 for the passage part

The lower layers are those of an English sentence encoder and let each part attend to itself, so training starts
from what that encoder already knows; the upper layers attend across both parts. The score is a weighted sum of
the cosine of both parts, the best match of each query token among passage tokens, the weight of query words that
occur in the passage, and a reading of the first token after the upper layers."""
import torch
import torch.nn as nn
import torch.nn.functional as F

from model import Bert, Layer

HIDDEN, CLS = -10000.0, 101


class PairScorer(nn.Module):
    def __init__(self, vocab=30522, layers=12, cross=3, width=384, dropout=0.1):
        super().__init__()
        self.bert = Bert(vocab, layers, width, dropout=dropout)
        self.cross = nn.ModuleList(Layer(width, dropout=dropout) for _ in range(cross))
        self.read = nn.Sequential(nn.Linear(width, width), nn.Tanh(), nn.Linear(width, 1))
        self.idf = nn.Embedding(vocab, 1)
        self.mix = nn.Parameter(torch.tensor([10.0, 30.0, 2.0]))
        self.bias = nn.Parameter(torch.zeros(1))

    def start(self, weights, idf):
        from model import load_bert

        load_bert(self.bert, weights)
        self.bert.typ.weight.data[1] = self.bert.typ.weight.data[0]
        for layer, source in zip(self.cross, self.bert.layers[-len(self.cross):]):
            layer.load_state_dict(source.state_dict())
        nn.init.zeros_(self.read[2].weight)
        nn.init.zeros_(self.read[2].bias)
        self.idf.weight.data.copy_(idf[:, None])
        return self

    def forward(self, ids, mask, types):
        mask = mask.to(torch.float32)
        p = mask * types.to(torch.float32)
        place = torch.arange(ids.shape[1], device=ids.device)[None]
        n = (mask - p).sum(1, keepdim=True).to(torch.int64)      # length of [CLS] query [SEP]
        middle = (place == n - 1).to(mask.dtype)
        # The [SEP] between the parts opens the passage as its own [CLS], so each part is read as the encoder knows it.
        p, q = p + middle, mask - p - middle
        part = p.to(torch.int64)
        ids = ids + (CLS - ids) * middle.to(ids.dtype)
        x = self.bert.embed(ids, part, (place - part * (n - 1)).clamp(min=0))
        own = q[:, :, None] * q[:, None] + p[:, :, None] * p[:, None]
        own = ((1.0 - own) * HIDDEN)[:, None].to(x.dtype)
        for layer in self.bert.layers:
            x = layer(x, own)
        u = F.normalize(x.float(), dim=-1)
        alike = torch.matmul(u, u.transpose(1, 2))
        cosine = (alike[:, 0] * middle).sum(1)
        best = (alike + (1.0 - p[:, None]) * -2.0).amax(2)
        late = (best * q).sum(1) / q.sum(1).clamp(min=1)
        same = ((ids[:, :, None] == ids[:, None]).to(mask.dtype) * p[:, None]).amax(2)
        inner = q * (place > 0).to(q.dtype)                      # query words without [CLS]
        weight = F.softplus(self.idf(ids).float())[..., 0] * inner
        lexical = (weight * same).sum(1) / weight.sum(1).clamp(min=1e-6)
        every = ((1.0 - mask[:, None, None]) * HIDDEN).to(x.dtype)
        for layer in self.cross:
            x = layer(x, every)
        score = self.mix[0] * cosine + self.mix[1] * late + self.mix[2] * lexical + self.read(x[:, 0].float())[:, 0] + self.bias
        return score[:, None]
