"""What both stages of the embedder share: the device, drawing and joining rows, the optimizer, the contrastive loss and the loop."""
import math
import os
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

from model import Layer

T0 = time.time()
# Seconds. A longer one means that the process did not run.
LONGEST_STEP = 15


def log(*a):
    print(f"[{time.time() - T0:7.1f}]", *a, flush=True)


def start():
    """The device, seeded and set up. A CPU is enough for a trial of a few steps."""
    torch.manual_seed(0)
    torch.backends.cuda.matmul.allow_tf32 = True
    if not torch.cuda.is_available():
        return torch.device("cpu")
    Layer.packed = torch.compile(Layer.packed, dynamic=True)
    return torch.device("cuda")


class Draw:
    """Rows by weight."""

    def __init__(self, weight, rng):
        self.cdf, self.rng = np.cumsum(weight, dtype=np.float64), rng
        self.cdf /= self.cdf[-1]

    def __call__(self, n):
        return np.minimum(np.searchsorted(self.cdf, self.rng.random(n)), len(self.cdf) - 1)


def together(draw, lang, rng, n, most=4):
    """n rows of two to `most` sentences of one language, as far as the draw has them; -1 for nothing."""
    j = draw(n * most)
    j = j[np.argsort(lang[j], kind="stable")].reshape(n, most)
    j[(lang[j] != lang[j[:, :1]]) | (np.arange(most) >= rng.integers(2, most + 1, n)[:, None])] = -1
    return j


def optimizer(model, rate, word_rate):
    matrices = [p for n, p in model.named_parameters() if p.ndim >= 2 and n != "word.weight"]
    return torch.optim.AdamW([
        {"params": [model.word.weight], "peak": word_rate, "weight_decay": 0.05},
        {"params": matrices, "peak": rate, "weight_decay": 0.02},
        {"params": [p for p in model.parameters() if p.ndim < 2], "peak": rate, "weight_decay": 0.0}], lr=1e-4, betas=(0.9, 0.98), fused=True)


def alike(targets):
    """Which other rows have nearly the same target: they are no wrong answers."""
    return (targets @ targets.T > 0.85).fill_diagonal_(False)


def nce(x, y, bad, both=False):
    """Cross entropy of finding the row of y that belongs to each row of x, and the other way round if `both`; pairs in `bad` are left out."""
    s = (x @ y.T * 20).masked_fill(bad, -1e4)
    k = torch.arange(len(x), device=x.device)
    return (F.cross_entropy(s, k) + F.cross_entropy(s.T, k)) / 2 if both else F.cross_entropy(s, k)


def save(model, path):
    """Writes the file whole or not at all."""
    torch.save({k: v.half() for k, v in model.state_dict().items()}, f"{path}.tmp")
    os.replace(f"{path}.tmp", path)


def train(model, opt, loss_of, seconds, warm_up, steps=0, checks=(), check=None, untimed=10):
    """Trains for `seconds`, not counting the `untimed` first steps, in which the layers are compiled; or for `steps`, which
    does not depend on the machine's speed. Calls check(share done, step) when each share in `checks` is passed. Returns the number of steps."""
    wait = torch.cuda.synchronize if torch.cuda.is_available() else lambda: None
    checks, began, step, mean_loss, last = list(checks), None, 0, None, time.time()
    model.train()

    def progress():
        if steps:
            return step / steps
        return 0.0 if began is None else (time.time() - began) / seconds

    while (done := progress()) < 1:
        rate = min(1.0, (step + 1) / warm_up) * (0.01 + 0.99 * 0.5 * (1 + math.cos(math.pi * done)))
        for group in opt.param_groups:
            group["lr"] = group["peak"] * rate
        loss = loss_of()
        opt.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        step += 1
        mean_loss = loss.detach() if mean_loss is None else mean_loss * 0.99 + loss.detach() * 0.01
        if step == untimed:
            wait()
            began = time.time()
        if step % 20 == 0:
            wait()  # keeps the clock of the schedule honest
        now = time.time()
        if began and now - last > LONGEST_STEP:
            began += now - last  # the process was stopped for a while
        last = now
        if steps and steps <= 100:
            log("step", step, "loss", float(loss.detach()))
        elif step == 20 or step % 100 == 0:
            log("step", step, "mean loss", round(float(mean_loss), 4), "rate", round(rate, 3), "done", round(done, 3),
                "steps/s", round((step - untimed) / (time.time() - began), 2), "GB", round(torch.cuda.max_memory_allocated() / 1e9, 1))
        if checks and done > checks[0]:
            check(checks.pop(0), step)
            last = time.time()
    return step
