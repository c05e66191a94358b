"""Turn published ONNX encoders into compact weight files: python teachers.py model.onnx out.npz

Matrices become int8 with one scale per row, everything else float16. Reads float and int8 exports, and the files of export.py."""
import re
import sys

import numpy as np
import onnx
from onnx import numpy_helper


# The names of export.py and those of published encoders.
PARTS = {
    "q": "attention.self.query", "k": "attention.self.key", "v": "attention.self.value", "o": "attention.output.dense",
    "ln1": "attention.output.LayerNorm", "f1": "intermediate.dense", "f2": "output.dense", "ln2": "output.LayerNorm",
}


def own(graph, init):
    """The weights of a file of export.py. Its queries are scaled, see Embedder there."""
    weights = {"embeddings.word_embeddings.weight": init["bert.word.weight_int8"].astype(np.float32) * init["bert.word.weight_scale"]}
    for name, rest in (("pos", "position_embeddings"), ("typ", "token_type_embeddings"), ("ln", "LayerNorm")):
        for end in ("weight", "bias"):
            if f"bert.{name}.{end}" in init:
                weights[f"embeddings.{rest}.{end}"] = init[f"bert.{name}.{end}"]
    products = [node.input[1].removesuffix("_quantized") for node in graph.node if node.op_type == "MatMulInteger" and node.input[1] in init]
    layers = len(products) // 6
    names = [f"encoder.layer.{i}.{PARTS[part]}.weight" for i in range(layers) for part in ("q", "k", "v", "o", "f1", "f2")] + ["head.weight"]
    for name, product in zip(names, products, strict=True):
        weights[name] = (init[product + "_quantized"].astype(np.float32) * init[product + "_scale"]).T
    for name in init:
        if m := re.fullmatch(r"bert\.layers\.(\d+)\.(\w+)\.(weight|bias)", name):
            weights[f"encoder.layer.{m[1]}.{PARTS[m[2]]}.{m[3]}"] = init[name]
    heads = 12
    scale = (weights["head.weight"].shape[0] // heads) ** 0.5
    for name in weights:
        if ".self.query." in name:
            weights[name] = weights[name] * np.float32(scale)
    return weights


def main(source, target):
    graph = onnx.load(source).graph
    init = {t.name: numpy_helper.to_array(t) for t in graph.initializer}
    save(own(graph, init) if "bert.word.weight_int8" in init else published(graph, init), target)


def published(graph, init):
    def value(name):
        if name in init:
            return init[name].astype(np.float32)
        q, scale, zero = (init[name + end] for end in ("_quantized", "_scale", "_zero_point"))
        return (q.astype(np.float32) - np.float32(zero)) * np.float32(scale)

    weights = {}
    for name in list(init):
        base = re.sub(r"_(quantized|scale|zero_point)$", "", name)
        if base.startswith(("embeddings.", "encoder.")):
            weights[base] = value(base)
    for node in graph.node:
        m = re.match(r"/(encoder/layer\.\d+/(?:attention/self/(?:query|key|value)|attention/output/dense|intermediate/dense|output/dense))/MatMul", node.name)
        if m and node.op_type in ("MatMul", "MatMulInteger"):
            weights[m.group(1).replace("/", ".") + ".weight"] = value(re.sub("_quantized$", "", node.input[1])).T
    return weights


def save(weights, target):
    out = {}
    for name, w in weights.items():
        if w.ndim == 2 and w.shape[0] > 2:
            scale = np.maximum(np.abs(w).max(1), 1e-8) / 127
            out[name] = np.round(w / scale[:, None]).astype(np.int8)
            out[name + ".scale"] = scale.astype(np.float32)
        else:
            out[name] = w.astype(np.float16)
    np.savez(target, **out)
    print(target, len(weights), "tensors", sum(w.size for w in weights.values()), "parameters")


if __name__ == "__main__":
    main(*sys.argv[1:])
