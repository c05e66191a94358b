"""Two ways to the same figures: the service over HTTP, or the ONNX files directly."""
import base64
import json
import re
import time
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np


class Direct:
    """A model directory (model_quantized.onnx, tokenizer.json, config.json) run by onnxruntime on the CPU."""

    def __init__(self, folder, file="model_quantized.onnx", threads=0, pooling=None):
        import onnxruntime as ort
        from tokenizers import Tokenizer

        folder = Path(folder)
        model = folder / file if (folder / file).exists() else folder / "onnx" / file
        options = ort.SessionOptions()
        options.intra_op_num_threads = threads
        self.session = ort.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
        self.config = json.loads((folder / "config.json").read_text())
        self.pooling = pooling or self.config.get("pooling", "mean")
        self.tok = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self.tok.no_padding()
        self.tok.enable_truncation(self.config.get("max_position_embeddings", 512))

    def _run(self, encodings):
        width = max(len(e.ids) for e in encodings)
        ids, mask, types = (np.zeros((len(encodings), width), np.int64) for _ in range(3))
        for r, e in enumerate(encodings):
            n = len(e.ids)
            ids[r, :n], mask[r, :n], types[r, :n] = e.ids, 1, e.type_ids
        return self.session.run(None, {"input_ids": ids, "attention_mask": mask, "token_type_ids": types})[0], mask

    def _batches(self, encodings, batch):
        order = np.argsort([-len(e.ids) for e in encodings], kind="stable")
        for i in range(0, len(order), batch):
            rows = order[i:i + batch]
            yield rows, *self._run([encodings[r] for r in rows])

    def embed(self, texts, batch=1):
        """One text at a time: ranges of activations are taken at run time and must not depend on other texts."""
        out = None
        for rows, hidden, mask in self._batches(self.tok.encode_batch(texts), batch):
            v = hidden[:, 0] if self.pooling == "cls" else (hidden * mask[..., None]).sum(1) / mask.sum(1, keepdims=True)
            out = np.zeros((len(texts), v.shape[1]), np.float32) if out is None else out
            out[rows] = v / np.linalg.norm(v, axis=1, keepdims=True)
        return out

    def tokens(self, texts, batch=16):
        """Normalised vectors of every token, for late interaction."""
        out = [None] * len(texts)
        for rows, hidden, mask in self._batches(self.tok.encode_batch(texts), batch):
            for r, h, m in zip(rows, hidden, mask):
                v = h[m > 0]
                out[r] = (v / np.linalg.norm(v, axis=1, keepdims=True)).astype(np.float16)
        return out

    def rerank(self, query, passages, batch=1):
        out = np.zeros(len(passages), np.float32)
        for rows, logits, _ in self._batches(self.tok.encode_batch([(query, p) for p in passages]), batch):
            out[rows] = logits[:, 0]
        return out


class Service:
    """A running service."""

    def __init__(self, base, model, key=None):
        self.base, self.model, self.key = base.rstrip("/"), model, key

    def get(self, path, data=None):
        headers = {"authorization": f"Bearer {self.key}"} if self.key else {}
        if data is not None:
            headers["content-type"] = "application/json"
        with urllib.request.urlopen(urllib.request.Request(self.base + path, data, headers)) as answer:
            return json.load(answer)

    def _post(self, path, body):
        return self.get(path, json.dumps(body).encode())

    def _embed(self, texts):
        """Texts over the model's limit are refused; they are cut at a word until they fit. So are empty ones, which Cranfield has."""
        texts, patience = [text if text.strip() else "." for text in texts], 5
        while True:
            try:
                return self._post("/v1/embeddings", {"model": self.model, "input": texts, "encoding_format": "base64"})
            except urllib.error.HTTPError as failure:
                error = json.load(failure)["error"]
                # A busy machine may stop an engine that gets no processor time.
                if failure.code in (429, 503) and patience:
                    time.sleep(int(failure.headers.get("retry-after", 1)))
                    patience -= 1
                    continue
                if error["code"] != "context_length_exceeded":
                    raise
                at = int(re.fullmatch(r"input\[(\d+)\]", error["param"]).group(1))
                tokens, limit = map(int, re.search(r"has (\d+) tokens, but this model takes at most (\d+)", error["message"]).groups())
                words = texts[at].split()
                texts[at] = " ".join(words[:min(len(words) - 1, len(words) * limit // tokens)])

    def embed(self, texts, batch=32):
        out = []
        # Two requests at a time, so that the engine does not wait for this program.
        with ThreadPoolExecutor(2) as pool:
            for answer in pool.map(self._embed, [texts[i:i + batch] for i in range(0, len(texts), batch)]):
                rows = sorted(answer["data"], key=lambda r: r["index"])
                out += [np.frombuffer(base64.b64decode(r["embedding"]), "<f4") for r in rows]
        return np.stack(out)

    def rerank(self, query, passages):
        answer = self._post("/v1/rerank", {"model": self.model, "query": query, "documents": passages, "top_n": len(passages)})
        out = np.zeros(len(passages), np.float32)
        for r in answer["results"]:
            out[r["index"]] = r["relevance_score"]
        return out
