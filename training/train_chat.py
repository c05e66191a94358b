"""Fine-tune chat-mini from a GGUF file on the output of prepare_chat.py, on one GPU:

    python train_chat.py --start start.gguf --prepared PREPARED --out OUT --eval DATA/eval --seconds 1150

Half way, the model translates sentences that have no translation: the English ones are then trained on as answers to its Swahili, and the
Swahili ones as answers to its English. At the end it is trained with weights rounded to 5 bits. --steps replaces --seconds for a trial on a CPU."""
import argparse
import json
import multiprocessing
import random
import sys
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F

sys.path.insert(0, str(Path(__file__).parent / "evaluate"))
from chat_examples import ASK, HEAD, LANGUAGES, SYSTEM, TURN, Examples
from chat_model import Block, Linear, Llama, read_gguf, tokenizer_of
from loop import log, train
from metrics import chrf

STOPS = (0, 2)
START_SYSTEM = "You are a helpful AI assistant named SmolLM, trained by Hugging Face"
TRANSLATE_AT, ROUND_AT = 0.5, 0.88
PIECES_LEFT_OUT = 0.1


def answers(model, prompts, most, temperature=0.0, batch=6144, cut=False):
    """Token ids after each prompt, or None where the model did not stop, unless the text is to be `cut` there. Prompts of about the same length share a batch."""
    found, order = [None] * len(prompts), sorted(range(len(prompts)), key=lambda i: len(prompts[i]))
    generator = torch.Generator(model.token_embd.weight.device).manual_seed(0)
    training = model.training
    model.eval()
    for i in range(0, len(order), batch):
        rows = order[i:i + batch]
        for row, ids in zip(rows, model.generate([prompts[r] for r in rows], most, STOPS, temperature, generator)):
            found[row] = ids if cut or len(ids) < most else None
    model.train(training)
    return found


class Asker:
    """Prompts and answers as text."""

    def __init__(self, model, tok, system=SYSTEM):
        self.model, self.tok, self.head = model, tok, HEAD.format(system=system)

    def __call__(self, asked, most=160, **options):
        prompts = [self.tok.encode(f"{self.head}{a}{TURN}").ids for a in asked]
        return [None if ids is None else self.tok.decode(ids).strip() for ids in answers(self.model, prompts, most, **options)]

    def translate(self, texts, source, target, **options):
        return self([ASK[0].format(source=source, target=target, text=t) for t in texts], **options)


def report(ask, folder, counts):
    """chrF both ways, over so many sentences of each language, spread evenly over FLORES devtest."""
    read = lambda name: (Path(folder) / "flores200_devtest" / f"{name}.txt").read_text(encoding="utf8").splitlines()
    english, asked, wanted = read("eng"), {}, {}
    for lang, count in counts.items():
        foreign, name, rows = read(lang), LANGUAGES[lang], [i * len(english) // count for i in range(count)]
        for source, target, a, b in (("English", name, english, foreign), (name, "English", foreign, english)):
            asked[source, target] = [ASK[0].format(source=source, target=target, text=a[i]) for i in rows]
            wanted[source, target] = [b[i] for i in rows]
    said, out = iter(ask([a for group in asked.values() for a in group], cut=True)), {}
    for way, group in asked.items():
        found = [next(said) for _ in group]
        out[" to ".join(way)] = round(chrf(found, wanted[way]), 2)
        log(*way, "chrF", out[" to ".join(way)], "of", len(group), "|", found[1][:160])
    return out


@torch.no_grad()
def bits_per_byte(model, tok, texts):
    """Of plain text, each piece on its own."""
    training, bits, size = model.training, 0.0, 0
    model.eval()
    for text in texts:
        ids = torch.tensor([[0] + tok.encode(text).ids], device=model.token_embd.weight.device)
        x, words = model(ids[:, :-1])
        bits += float(F.cross_entropy(F.linear(x[0], words).float(), ids[0, 1:], reduction="sum")) / np.log(2)
        size += len(text.encode())
    model.train(training)
    return round(bits / size, 4)


def english_texts(folder):
    flores = (Path(folder) / "flores200_devtest/eng.txt").read_text(encoding="utf8").splitlines()
    return [" ".join(flores[i:i + 4]) for i in range(0, 400, 4)]


def plausible(source, text):
    words = text.split() if text else []
    return 3 <= len(words) and 0.5 < len(text) / len(source) < 2 and len(set(words)) > 0.5 * len(words)


class Feed:
    """Batches made by other processes."""

    def __init__(self, examples, tokens, workers):
        context = multiprocessing.get_context("fork")
        self.queue, self.processes = context.Queue(4 * workers), []
        for seed in range(workers):
            process = context.Process(target=self.fill, args=(examples, tokens, seed), daemon=True)
            process.start()
            self.processes.append(process)

    def fill(self, examples, tokens, seed):
        for batch in examples(seed).batches(tokens):
            self.queue.put(batch)

    def stop(self):
        for process in self.processes:
            process.kill()


def main():
    args = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    args.add_argument("--start", required=True)
    args.add_argument("--prepared", required=True)
    args.add_argument("--out", required=True)
    args.add_argument("--eval", required=True)
    args.add_argument("--seconds", type=float, default=1150)
    args.add_argument("--steps", type=int, default=0)
    args.add_argument("--tokens", type=int, default=65536)
    args.add_argument("--lr", type=float, default=6e-4)
    args.add_argument("--dropout", type=float, default=0.1)
    args.add_argument("--workers", type=int, default=8)
    args.add_argument("--sentences", type=int, default=60000)
    args.add_argument("--rows", type=int, help="only so many pairs and tasks, for a trial")
    args = args.parse_args()
    out, prepared = Path(args.out), Path(args.prepared)
    out.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(0)
    torch.backends.cuda.matmul.allow_tf32 = True
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    shape, weights, tokens, merges = read_gguf(args.start)
    tok = tokenizer_of(tokens, merges)
    read = lambda name: [json.loads(line) for line in (prepared / name).read_text(encoding="utf8").splitlines()][:args.rows]
    plain_lines = lambda name: (prepared / name).read_text(encoding="utf8").splitlines()[:args.rows]
    rows, tasks, validation = read("pairs.jsonl"), read("english.jsonl"), [r for r in read("validation.jsonl") if r[0] == "swh"][:300]
    sentences, swahili = plain_lines("sentences.txt"), plain_lines("swahili.txt")
    random.Random(1).shuffle(sentences)
    sentences = sentences[:args.sentences]
    model = Llama(shape, args.dropout).to(device)
    model.load_state_dict(weights)
    figures = {"start": {"bits per byte": bits_per_byte(model, tok, english_texts(args.eval)[:args.rows])}}
    log("start", figures["start"])
    ask = Asker(model, tok, START_SYSTEM)
    asked = [t["ask"] for t in tasks if "answer" not in t]
    said = ask(asked, most=8 if args.rows else 192, temperature=0.6)
    answered = [(a, b) for a, b in zip(asked, said) if b] + [(t["ask"], t["answer"]) for t in tasks if "answer" in t]
    log("answers of the start model", sum(b is not None for b in said), "of", len(asked), said[:2])
    examples = lambda pairs: Feed(lambda seed: Examples(tok, tokenizer_of(tokens, merges, PIECES_LEFT_OUT), pairs, answered, swahili, seed), args.tokens, args.workers)
    if device.type == "cuda":
        Block.forward = torch.compile(Block.forward, dynamic=True)
    matrices = [p for p in model.parameters() if p.ndim >= 2]
    opt = torch.optim.AdamW([
        {"params": matrices, "peak": args.lr, "weight_decay": 0.05}, {"params": [p for p in model.parameters() if p.ndim < 2], "peak": args.lr, "weight_decay": 0.0}],
        lr=1e-4, betas=(0.9, 0.95), fused=device.type == "cuda")
    feed, seen = examples(rows), 0

    def loss_of():
        nonlocal seen
        ids, weight = (torch.from_numpy(a).to(device, non_blocking=True) for a in feed.queue.get())
        ids = ids.long()
        x, words = model(ids[:, :-1])
        weight = weight[:, 1:]
        at = weight > 0
        seen += ids.numel()
        loss = F.cross_entropy(F.linear(x[at], words).float(), ids[:, 1:][at], reduction="none")
        return (loss * weight[at]).sum() / weight.sum()

    own = Asker(model, tok)

    def validate():
        for source, target, a, b in (("English", "Swahili", 2, 3), ("Swahili", "English", 3, 2)):
            found = own.translate([r[a] for r in validation], source, target)
            log("picture books", source, "to", target, "chrF", round(chrf([f or "" for f in found], [r[b] for r in validation]), 2), found[:2])

    def check(share, step):
        nonlocal feed
        log("tokens seen", seen)
        if share == TRANSLATE_AT:
            feed.stop()
            into, back = own.translate(sentences, "English", "Swahili", most=112), own.translate(swahili, "Swahili", "English", most=112)
            found = [("e", a, b) for a, b in zip(sentences, into) if b and plausible(a, b)] + [("n", b, a) for a, b in zip(swahili, back) if b and plausible(a, b)]
            log("translated by the model itself", len(found), "of", len(sentences) + len(swahili), found[0], found[-1])
            feed = examples(rows + [("swh", *pair) for pair in found])
        if share == ROUND_AT:
            Linear.rounds = True
        validate()
        torch.save({k: v.half() for k, v in model.state_dict().items()}, out / "model.pt")

    steps = train(model, opt, loss_of, args.seconds, 100, args.steps, checks=(0.25, TRANSLATE_AT, 0.75, ROUND_AT), check=check)
    feed.stop()
    torch.save({k: v.half() for k, v in model.state_dict().items()}, out / "model.pt")
    Linear.rounds = True
    validate()
    figures["steps"], figures["tokens"] = steps, seen
    figures["tuned"] = {"bits per byte": bits_per_byte(model, tok, english_texts(args.eval)[:args.rows])}
    (out / "figures.json").write_text(json.dumps(figures, indent=1))
    log("tuned", figures["tuned"], "tokens", seen)
    if not args.rows:
        figures["tuned"]["chrF"] = report(own, args.eval, {lang: 1012 if lang == "swh" else 400 for lang in LANGUAGES})
        for text in own(["What is the capital of France?", "Write one sentence about the sea.", "Which language is this?\n\nHabari ya asubuhi, rafiki yangu."]):
            log(text)
    (out / "figures.json").write_text(json.dumps(figures, indent=1))
    log("done")


if __name__ == "__main__":
    main()
