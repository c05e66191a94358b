"""Vectors of a model kept on disk in pieces, so that an interrupted evaluation goes on where it stopped."""
import hashlib
import time
from pathlib import Path

import numpy as np

PIECE = 256


class OutOfTime(Exception):
    """The time given to a run is over; what was computed is kept."""


class Kept:
    """`embed` of a model, with every piece of its answers kept in `folder`, until `deadline` (monotonic seconds)."""

    def __init__(self, service, folder=None, deadline=None):
        self.service, self.deadline = service, deadline
        # A vector identifies the weights and the engine better than the name: weights of one date change while they are made.
        self.identity = service.model.encode() + service.embed(["Which river flows through Bamako?"]).tobytes()
        self.folder = Path(folder) if folder else None
        if self.folder:
            self.folder.mkdir(parents=True, exist_ok=True)

    def embed(self, texts):
        return np.concatenate([self._piece(texts[i:i + PIECE]) for i in range(0, len(texts), PIECE)])

    def _piece(self, texts):
        digest = hashlib.sha256(self.identity + "\0".join(texts).encode()).hexdigest()
        file = self.folder / f"{digest}.npy" if self.folder else None
        if file and file.exists():
            return np.load(file)
        if self.deadline and time.monotonic() > self.deadline:
            raise OutOfTime
        vectors = self.service.embed(texts)
        if file:
            unfinished = file.with_suffix(".part.npy")
            np.save(unfinished, vectors)
            unfinished.rename(file)
        return vectors
