"""Average an exported version with one that was trained on from it: python mix_versions.py EARLIER LATER SHARE OUT --english FILE

EARLIER and LATER are folders of export.py; SHARE is that of LATER. Each training turns the vectors to axes of its own, so the head of EARLIER
is turned to those of LATER first, by a least-squares fit over English sentences. Pieces that only LATER knows keep its rows."""
import argparse
import random
import shutil
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
from onnx import numpy_helper
from tokenizers import Tokenizer

SENTENCES, RIDGE = 8000, 1e-3


def means(folder, texts):
    """The vectors of texts before they are scaled to length 1, one run a text."""
    tok = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tok.no_padding()
    tok.enable_truncation(128)
    session = ort.InferenceSession(str(folder / "model_quantized.onnx"), providers=["CPUExecutionProvider"])
    out = []
    for e in tok.encode_batch(texts):
        ids = np.array([e.ids])
        out.append(session.run(None, {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": np.zeros_like(ids)})[0][0].mean(0))
    return np.array(out, np.float64)


class Weights:
    """The weights of a graph as floats, by a name that is the same in every export."""

    def __init__(self, path):
        self.model = onnx.load(str(path))
        self.graph = self.model.graph
        self.at = {t.name: i for i, t in enumerate(self.graph.initializer)}
        products = [node.input[1].removesuffix("_quantized") for node in self.graph.node if node.op_type == "MatMulInteger" and node.input[1] in self.at]
        self.names = {f"product {i}": name for i, name in enumerate(products)}
        self.names["words"] = "bert.word.weight"
        self.names |= {name: name for name in self.at if name.startswith("bert.") and not name.startswith("bert.word.")}
        self.head = f"product {len(products) - 1}"

    def array(self, name):
        return numpy_helper.to_array(self.graph.initializer[self.at[name]])

    def put(self, name, array):
        self.graph.initializer[self.at[name]].CopyFrom(numpy_helper.from_array(array, name))

    def read(self, key):
        name = self.names[key]
        if key == "words":
            return self.array(name + "_int8").astype(np.float32) * self.array(name + "_scale")
        if key.startswith("product"):
            return self.array(name + "_quantized").astype(np.float32) * self.array(name + "_scale")
        return self.array(name)

    def write(self, key, w):
        name = self.names[key]
        if key == "words":
            scale = np.maximum(np.abs(w).max(1, keepdims=True), 1e-8).astype(np.float32) / 127
            self.put(name + "_int8", np.round(w / scale).astype(np.int8))
            self.put(name + "_scale", scale)
        elif key.startswith("product"):
            scale = (np.maximum(np.abs(w).max(0), 1e-8) / 127).astype(np.float32)
            self.put(name + "_quantized", np.round(w / scale).astype(np.int8))
            self.put(name + "_scale", scale)
        else:
            self.put(name, w.astype(np.float32))


def main():
    args = argparse.ArgumentParser()
    args.add_argument("earlier", type=Path)
    args.add_argument("later", type=Path)
    args.add_argument("share", type=float)
    args.add_argument("out", type=Path)
    args.add_argument("--english", required=True)
    args = args.parse_args()
    english = Path(args.english).read_text(encoding="utf8").split("\n")
    texts = random.Random(0).sample(english, min(SENTENCES, len(english)))
    a, b = means(args.earlier, texts), means(args.later, texts)
    turn = np.linalg.solve(a.T @ a + RIDGE * np.eye(a.shape[1]), a.T @ b).astype(np.float32)
    cosine = lambda x, y: float(((x * y).sum(1) / np.linalg.norm(x, axis=1) / np.linalg.norm(y, axis=1)).mean())
    print("mean cosine of the two", round(cosine(a, b), 4), "and after the turn", round(cosine(a @ turn, b), 4))
    earlier, later = Weights(args.earlier / "model_quantized.onnx"), Weights(args.later / "model_quantized.onnx")
    for key in later.names:
        old, new = earlier.read(key), later.read(key)
        if key == later.head:
            old = old @ turn
        if key == "words":
            old = np.concatenate([old, new[len(old):]])
        later.write(key, (1 - args.share) * old + args.share * new)
    args.out.mkdir(parents=True, exist_ok=True)
    onnx.save(later.model, str(args.out / "model_quantized.onnx"))
    for name in ("tokenizer.json", "config.json"):
        shutil.copyfile(args.later / name, args.out / name)


if __name__ == "__main__":
    main()
