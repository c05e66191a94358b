"""Speed and memory of models of one task, in turns through a service on this machine. Linux only."""
import json
import os
import time
import urllib.request
import uuid
from pathlib import Path
from statistics import median

ROOT = Path(__file__).parents[2]
CLIP = ROOT / "test/fixtures/audio/weather.ogg"
PASSAGE = ("The baobab stores water in its thick trunk and can live for more than a thousand years. Its fruit is dry and sour, its leaves are "
           "cooked as a vegetable, and its bark is made into rope. Elephants open the trunk with their tusks in the dry season.")
PASSAGES = [f"{i}. {PASSAGE}" for i in range(64)]

# The first model of each task is the one that the others are compared with.
TASKS = {
    "embedding": ["sentence-transformers/all-minilm-l6-v2", "baobab/embed-multilingual", "baai/bge-small-en-v1.5", "intfloat/e5-small-v2",
                  "thenlper/gte-small"],
    "rerank": ["baobab/rerank-small", "baobab/rerank-multilingual", "baobab/rerank-mini"],
    "audio": ["openai/whisper-tiny", "openai/whisper-base", "openai/whisper-small"],
    "chat": ["baobab/chat-mini", "tinyllama/tinyllama-1.1b-chat", "qwen/qwen2.5-coder-1.5b-instruct"],
}
ROUNDS = {"embedding": 5, "rerank": 5, "audio": 3, "chat": 3}


class Client:
    def __init__(self, base, key):
        self.base, self.key = base.rstrip("/"), key

    def send(self, path, data=None, kind="application/json"):
        headers = {"authorization": f"Bearer {self.key}", **({"content-type": kind} if data is not None else {})}
        with urllib.request.urlopen(urllib.request.Request(self.base + path, data, headers)) as answer:
            return json.load(answer)

    def post(self, path, body):
        return self.send(path, json.dumps(body).encode())

    def engine(self, model):
        slug, _, version = model.partition("@")
        return next(e for e in self.send("/v1/admin/engines")["data"] if e["model"] == slug and e["version"] == version)

    def pins(self, slug):
        """Every version, the recommended one first."""
        model = self.send(f"/v1/models/{slug}")
        others = [v["version"] for v in model["versions"] if v["version"] != model["version"]]
        return [f"{slug}@{version}" for version in (model["version"], *others)]


def work(client, task, model):
    """One piece of work. Returns its size: texts, tokens written or seconds of audio."""
    if task == "embedding":
        return len(client.post("/v1/embeddings", {"model": model, "input": PASSAGES, "encoding_format": "base64"})["data"])
    if task == "rerank":
        return len(client.post("/v1/rerank", {"model": model, "query": "What do elephants eat?", "documents": PASSAGES})["results"])
    if task == "chat":
        body = {"model": model, "messages": [{"role": "user", "content": "Write a long story about a baobab tree."}], "max_tokens": 24}
        return client.post("/v1/chat/completions", body)["usage"]["completion_tokens"]
    edge = uuid.uuid4().hex
    fields = {"model": model, "language": "en", "response_format": "verbose_json"}
    parts = [f'--{edge}\r\nContent-Disposition: form-data; name="{k}"\r\n\r\n{v}\r\n'.encode() for k, v in fields.items()]
    parts += [f'--{edge}\r\nContent-Disposition: form-data; name="file"; filename="clip.ogg"\r\n\r\n'.encode(), CLIP.read_bytes(), f"\r\n--{edge}--\r\n".encode()]
    return client.send("/v1/audio/transcriptions", b"".join(parts), f"multipart/form-data; boundary={edge}")["duration"]


def processor_seconds(pids):
    fields = [Path(f"/proc/{pid}/stat").read_text().rsplit(") ", 1)[1].split() for pid in pids]
    return sum(int(f[11]) + int(f[12]) for f in fields) / os.sysconf("SC_CLK_TCK")


def speed_table(base, key, tasks, report):
    """Units for each second of processor time and of wall time, as ratios to the first model: medians over the rounds."""
    client, found = Client(base, key), report.setdefault("speed", {})
    for task in tasks:
        models = [m for slug in TASKS[task] for m in client.pins(slug) if client.engine(m)["weights"]["status"] == "present"]
        print(f"\n{task}: speed as a multiple of {models[0]}, {ROUNDS[task]} rounds in turns, load average {os.getloadavg()[0]:.1f}", flush=True)
        for model in models:
            work(client, task, model)
        rounds = {m: [] for m in models}
        for _ in range(ROUNDS[task]):
            for model in models:
                pids = client.engine(model)["process_ids"]
                start, before = time.monotonic(), processor_seconds(pids)
                units = work(client, task, model)
                rounds[model].append((units / max(processor_seconds(pids) - before, 1e-3), units / (time.monotonic() - start)))
        first = rounds[models[0]]
        for model in models:
            ratio = [median(own[i] / other[i] for own, other in zip(rounds[model], first)) for i in (0, 1)]
            engine = client.engine(model)
            found[model] = {"task": task, "processor": ratio[0], "wall": ratio[1], "units_per_processor_second": median(r[0] for r in rounds[model]),
                            "memory_mb": engine["memory_bytes"] / 1e6, "disk_mb": engine["weights"]["bytes_on_disk"] / 1e6}
            print(f"  {model:45}" + " ".join(f"{k} {v:.2f}" for k, v in found[model].items() if k != "task"), flush=True)
