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

    def pack(self, segments, hide=None):
        """`segments`: lists of columns (text, offset, length), texts numbered from 0 in each list. `hide`: share of tokens to mask, for each text."""
        counts = np.cumsum([0] + [int(s[-1, 0]) + 1 for s in segments])
        rows = np.concatenate([s + [[first, 0, 0]] for s, first in zip(segments, counts)])
        lengths = np.bincount(rows[:, 0], weights=rows[:, 2], minlength=counts[-1]).astype(np.int64)
        total, up = int(lengths.sum()), lambda a: torch.from_numpy(a).to(self.device, non_blocking=True)
        text, offset, length = up(np.ascontiguousarray(rows.T))
        n = up(lengths)
        starts = torch.cat([n.new_zeros(1), n.cumsum(0)])
        piece = torch.repeat_interleave(torch.arange(len(text), device=self.device), length, output_size=total)
        token, owner = torch.arange(total, device=self.device), text[piece]
        ids = self.parts[0][offset[piece] + token - (length.cumsum(0) - length)[piece]].long()
        if hide is not None:
            share = up(np.concatenate(hide).astype(np.float32))
            ids = torch.where((torch.rand(total, device=self.device) < share[owner]) & (ids >= FIRST_WORD), HIDDEN, ids)
        return Pack(ids, token - starts[owner], owner, starts.int(), n)


@dataclass
class Texts:
    offset: np.ndarray
    length: np.ndarray

    def __len__(self):
        return len(self.length)

    def single(self, index):
        return np.stack([np.arange(len(index)), self.offset[index], self.length[index]], 1)

    def joined(self, index, limit):
        """Each row of `index` as one text, -1 for nothing: [CLS] a b c [SEP]. Texts are left out from the end until `limit` tokens hold it."""
        used = index >= 0
        inner = np.where(used, self.length[index] - 2, 0)
        used &= (np.cumsum(inner, 1) <= limit - 2) | (np.arange(index.shape[1]) == 0)
        last = used.sum(1) - 1
        text, place = np.nonzero(used)
        one = index[text, place]
        begins, ends = place == 0, place == last[text]
        return np.stack([text, self.offset[one] + ~begins, self.length[one] - ~begins - ~ends], 1), used
