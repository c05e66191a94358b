"""Texts of many lengths as one long row of tokens, without padding."""
from dataclasses import dataclass

import numpy as np
import torch

HIDDEN, FIRST_WORD = 4, 5  # [MASK]; smaller ids are special tokens


@dataclass
class Pack:
    ids: torch.Tensor        # tokens of all texts, one after the other
    positions: torch.Tensor  # place of a token in its text
    owner: torch.Tensor      # number of a token's text
    starts: torch.Tensor     # where each text begins, and the end
    lengths: torch.Tensor    # tokens of each text


class Store:
    """Token ids of several collections on the device. Lengths stay on the host, so that no step waits for the device."""

    def __init__(self, device):
        self.device, self.parts, self.total = device, [], 0

    def add(self, ids, lengths):
        texts = Texts(np.cumsum(lengths) - lengths + self.total, np.asarray(lengths, dtype=np.int64))
        self.parts.append(torch.from_numpy(ids.astype(np.int32)).to(self.device))
        self.total += len(ids)
        return texts

    def seal(self):
        """Joins what was added since; later collections may follow."""
        self.parts = [torch.cat(self.parts)]

    def pack(self, spans, hide):
        """`spans`: columns offset, length, second offset, second length. `hide`: share of tokens to mask, for each text."""
        spans = np.concatenate(spans)
        lengths = spans[:, 1] + spans[:, 3]
        total = int(lengths.sum())
        both = torch.from_numpy(np.concatenate([spans.T, lengths[None]]).astype(np.int64)).to(self.device, non_blocking=True)
        first, size, second, _, n = both
        starts = torch.cat([n.new_zeros(1), n.cumsum(0)])
        owner = torch.repeat_interleave(torch.arange(len(n), device=self.device), n, output_size=total)
        positions = torch.arange(total, device=self.device) - starts[owner]
        inside = positions - size[owner]
        ids = self.parts[0][torch.where(inside < 0, first[owner] + positions, second[owner] + inside)].long()
        if hide is not None:
            share = torch.from_numpy(np.concatenate(hide).astype(np.float32)).to(self.device, non_blocking=True)
            ids = torch.where((torch.rand(total, device=self.device) < share[owner]) & (ids >= FIRST_WORD), HIDDEN, ids)
        return Pack(ids, positions, owner, starts.int(), n)


@dataclass
class Texts:
    offset: np.ndarray
    length: np.ndarray

    def __len__(self):
        return len(self.length)

    def spans(self, index):
        zero = np.zeros(len(index), np.int64)
        return np.stack([self.offset[index], self.length[index], zero, zero], 1)

    def joined(self, i, j, limit):
        """Two texts as one, cut at `limit` tokens: [CLS] a b [SEP]."""
        a = self.length[i] - 1
        return np.stack([self.offset[i], a, self.offset[j] + 1, np.minimum(self.length[j] - 1, np.maximum(limit - a, 1))], 1)
