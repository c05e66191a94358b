"""A Llama small enough to read: loading it from a GGUF file, training steps, generation, and rounding to 5 bits.

The weights stay in the order of GGUF, which turns neighbouring pairs of a head (a published checkpoint turns its halves)."""
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

BLOCK = 32


@dataclass
class Shape:
    layers: int
    width: int
    inner: int
    heads: int
    kv_heads: int
    vocab: int
    rope_base: float
    epsilon: float


def rounded(w):
    """The values of a Q5_0 file: blocks of 32 weights, 5 bits each and one half-precision scale. The gradient passes through."""
    x = w.detach().view(-1, BLOCK)
    largest = x.gather(1, x.abs().argmax(1, keepdim=True))
    inverse = torch.where(largest == 0, 0, -16 / largest)
    q = (x * inverse + 16.5).floor().clamp(0, 31) - 16
    return w + ((q * (largest / -16).half().float()).view_as(w) - w.detach())


class Linear(nn.Linear):
    rounds = False

    def forward(self, x):
        weight = rounded(self.weight) if Linear.rounds else self.weight
        return F.linear(x, weight.to(x.dtype))


class Norm(nn.Module):
    def __init__(self, width, epsilon):
        super().__init__()
        self.weight, self.epsilon = nn.Parameter(torch.ones(width)), epsilon

    def forward(self, x):
        y = x.float()
        return (y * torch.rsqrt(y.square().mean(-1, keepdim=True) + self.epsilon) * self.weight).to(x.dtype)


def turn(x, cos, sin):
    a, b = x.unflatten(-1, (-1, 2)).unbind(-1)
    return torch.stack([a * cos - b * sin, a * sin + b * cos], -1).flatten(-2).to(x.dtype)


class Block(nn.Module):
    def __init__(self, s, dropout):
        super().__init__()
        self.shape, self.dropout, size = s, dropout, s.width // s.heads
        linear = lambda a, b: Linear(a, b, bias=False)
        self.attn_norm, self.ffn_norm = Norm(s.width, s.epsilon), Norm(s.width, s.epsilon)
        self.attn_q, self.attn_output = linear(s.width, s.width), linear(s.width, s.width)
        self.attn_k, self.attn_v = linear(s.width, s.kv_heads * size), linear(s.width, s.kv_heads * size)
        self.ffn_gate, self.ffn_up, self.ffn_down = linear(s.width, s.inner), linear(s.width, s.inner), linear(s.inner, s.width)

    def heads(self, x, cos, sin):
        h = self.attn_norm(x)
        split = lambda t, n: t.unflatten(-1, (n, -1)).transpose(1, 2)
        q, k, v = split(self.attn_q(h), self.shape.heads), split(self.attn_k(h), self.shape.kv_heads), split(self.attn_v(h), self.shape.kv_heads)
        return turn(q, cos, sin), turn(k, cos, sin), v

    def attend(self, q, k, v, **options):
        again = self.shape.heads // self.shape.kv_heads
        k, v = k.repeat_interleave(again, 1), v.repeat_interleave(again, 1)
        return F.scaled_dot_product_attention(q, k, v, **options)

    def finish(self, x, a):
        drop = lambda t: F.dropout(t, self.dropout, self.training)
        x = x + drop(self.attn_output(a.transpose(1, 2).flatten(2)))
        h = self.ffn_norm(x)
        return x + drop(self.ffn_down(F.silu(self.ffn_gate(h)) * self.ffn_up(h)))

    def forward(self, x, cos, sin):
        return self.finish(x, self.attend(*self.heads(x, cos, sin), is_causal=True))

    def step(self, x, cos, sin, cache, at, mask):
        """The same for the tokens at `at`, with the keys and values of those before them in `cache`."""
        q, k, v = self.heads(x, cos, sin)
        cache[0][:, :, at], cache[1][:, :, at] = k, v
        end = at.stop
        return self.finish(x, self.attend(q, cache[0][:, :, :end], cache[1][:, :, :end], attn_mask=mask[..., :end]))


class Llama(nn.Module):
    def __init__(self, shape, dropout=0.0):
        super().__init__()
        self.shape = shape
        self.token_embd = nn.Embedding(shape.vocab, shape.width)
        self.blk = nn.ModuleList(Block(shape, dropout) for _ in range(shape.layers))
        self.output_norm = Norm(shape.width, shape.epsilon)

    def words(self):
        return rounded(self.token_embd.weight) if Linear.rounds else self.token_embd.weight

    def angles(self, positions):
        half = self.shape.width // self.shape.heads // 2
        rate = self.shape.rope_base ** (-torch.arange(half, device=positions.device, dtype=torch.float32) / half)
        angle = positions[..., None].float() * rate
        return angle.cos(), angle.sin()

    def forward(self, ids):
        """Hidden states. Padding belongs at the end of a row, where nothing before it sees it."""
        words = self.words().to(torch.bfloat16)
        x = F.embedding(ids, words)
        cos, sin = self.angles(torch.arange(ids.shape[1], device=ids.device))
        for block in self.blk:
            x = block(x, cos, sin)
        return self.output_norm(x), words

    @torch.no_grad()
    def generate(self, prompts, most, stops, temperature=0.0, generator=None, pad=0):
        """The tokens after each prompt, without the one that stops; all prompts in one batch, padded on the left."""
        device, longest = self.token_embd.weight.device, max(map(len, prompts))
        ids = torch.full((len(prompts), longest), pad)
        seen = torch.zeros(len(prompts), longest + most, dtype=torch.bool)
        for row, prompt in enumerate(prompts):
            ids[row, longest - len(prompt):] = torch.tensor(prompt)
            seen[row, longest - len(prompt):] = True
        ids, seen = ids.to(device), seen.to(device)
        positions = (seen.cumsum(1) - 1).clamp(min=0)
        words, s = self.words().to(torch.bfloat16), self.shape
        empty = lambda: torch.zeros(len(prompts), s.kv_heads, longest + most, s.width // s.heads, device=device, dtype=torch.bfloat16)
        caches = [(empty(), empty()) for _ in self.blk]
        causal = torch.ones(longest, longest + most, dtype=torch.bool, device=device).tril()
        at, mask = slice(0, longest), causal & seen[:, None, None, :]
        # A row of padding sees itself, so that no softmax is empty.
        mask[..., :longest] |= torch.eye(longest, dtype=torch.bool, device=device)
        stop, done, out = torch.tensor(stops, device=device), torch.zeros(len(prompts), dtype=torch.bool, device=device), []
        for new in range(most):
            cos, sin = (a[:, None] for a in self.angles(positions[:, at]))
            x = F.embedding(ids, words)
            for block, cache in zip(self.blk, caches):
                x = block.step(x, cos, sin, cache, at, mask)
            logits = F.linear(self.output_norm(x[:, -1]), words).float()
            token = torch.multinomial((logits / temperature).softmax(-1), 1, generator=generator)[:, 0] if temperature else logits.argmax(-1)
            done |= torch.isin(token, stop)
            out.append(torch.where(done, -1, token))
            if new % 16 == 15 and bool(done.all()):
                break
            ids, at = torch.where(done, pad, token)[:, None], slice(longest + new, longest + new + 1)
            mask = seen[:, None, None, :]
        return [[t for t in row if t >= 0] for row in torch.stack(out, 1).tolist()]


def read_gguf(path):
    """The shape, the weights as float32 by their names in the file, the tokens, the merges and the template."""
    from gguf import GGUFReader
    from gguf.quants import dequantize

    reader = GGUFReader(path)
    field = lambda name: reader.fields[name].contents()
    shape = Shape(
        layers=field("llama.block_count"), width=field("llama.embedding_length"), inner=field("llama.feed_forward_length"),
        heads=field("llama.attention.head_count"), kv_heads=field("llama.attention.head_count_kv"), vocab=field("llama.vocab_size"),
        rope_base=field("llama.rope.freq_base"), epsilon=field("llama.attention.layer_norm_rms_epsilon"))
    weights = {t.name: torch.from_numpy(np.array(dequantize(t.data, t.tensor_type), dtype=np.float32)) for t in reader.tensors}
    return shape, weights, field("tokenizer.ggml.tokens"), field("tokenizer.ggml.merges")


def tokenizer_of(tokens, merges, dropout=None):
    """SmolLM's byte-level BPE. With `dropout` it leaves out merges by chance, so that words come in varying pieces."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

    vocab = {t: i for i, t in enumerate(tokens)}
    tok = Tokenizer(models.BPE(vocab=vocab, merges=[tuple(m.split(" ")) for m in merges], dropout=dropout))
    tok.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)])
    tok.decoder = decoders.ByteLevel()
    tok.add_special_tokens([AddedToken(t, special=True) for t in tokens if t.startswith("<") and t.endswith(">") and len(t) > 4 and "|" in t])
    return tok
