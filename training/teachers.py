"""Turn published ONNX encoders into compact weight files: python teachers.py model.onnx out.npz

Matrices become int8 with one scale per row, everything else float16. Reads float and int8 exports."""
import re
import sys

import numpy as np
import onnx
from onnx import numpy_helper


def main(source, target):
    graph = onnx.load(source).graph
    init = {t.name: numpy_helper.to_array(t) for t in graph.initializer}

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
