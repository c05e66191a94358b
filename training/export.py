"""From trained weights to the shipped files: a float32 ONNX graph, its int8 form, tokenizer and config.

    python export.py embedder --weights student.pt --tokenizer tokenizer.json --out DIR
    python export.py reranker --weights reranker.pt --tokenizer tokenizer.json --out DIR"""
import argparse
import hashlib
import json
import shutil
from pathlib import Path

import numpy as np
import onnx
import torch
import torch.nn as nn
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import QuantType, quantize_dynamic

from model import Bert
from pair_model import PairScorer


class Embedder(nn.Module):
    def __init__(self, bert):
        super().__init__()
        self.bert = bert

    def forward(self, input_ids, attention_mask, token_type_ids):
        return self.bert(input_ids, attention_mask, token_type_ids)


class Reranker(nn.Module):
    def __init__(self, scorer):
        super().__init__()
        self.scorer = scorer

    def forward(self, input_ids, attention_mask, token_type_ids):
        return self.scorer(input_ids, attention_mask, token_type_ids)


def layers_in(state, prefix):
    return 1 + max(int(k.removeprefix(prefix).split(".")[0]) for k in state if k.startswith(prefix))


def config(vocab, layers, **more):
    return {
        "model_type": "bert", "vocab_size": vocab, "hidden_size": 384, "num_hidden_layers": layers, "num_attention_heads": 12,
        "intermediate_size": 1536, "hidden_act": "gelu", "layer_norm_eps": 1e-12, "max_position_embeddings": 512,
        "type_vocab_size": 2, "pad_token_id": 0, **more,
    }


def quantise(source, target):
    """Matrix products become int8 with one scale per output channel and ranges of activations taken at run time; the
    word table becomes int8 with one scale per word, which one scale for all words would round too coarsely."""
    model = onnx.load(str(source))
    graph = model.graph
    table = {t.name: t for t in graph.initializer}
    nodes, words = [], set()
    for node in graph.node:
        name = node.input[0] if node.op_type == "Gather" else None
        if name not in table or len(table[name].dims) != 2 or table[name].dims[0] < 10_000 or table[name].dims[1] < 2:
            nodes.append(node)
            continue
        if name not in words:
            words.add(name)
            w = numpy_helper.to_array(table[name])
            scale = np.maximum(np.abs(w).max(1, keepdims=True), 1e-8).astype(np.float32) / 127
            graph.initializer.append(numpy_helper.from_array(np.round(w / scale).astype(np.int8), name + "_int8"))
            graph.initializer.append(numpy_helper.from_array(scale, name + "_scale"))
        ids, result = node.input[1], node.output[0]
        nodes += [
            helper.make_node("Gather", [name + "_int8", ids], [result + "_int8"], axis=0),
            helper.make_node("Gather", [name + "_scale", ids], [result + "_scale"], axis=0),
            helper.make_node("Cast", [result + "_int8"], [result + "_cast"], to=TensorProto.FLOAT),
            helper.make_node("Mul", [result + "_cast", result + "_scale"], [result]),
        ]
    kept = [t for t in graph.initializer if t.name not in words]
    del graph.initializer[:], graph.node[:]
    graph.initializer.extend(kept)
    graph.node.extend(nodes)
    onnx.checker.check_model(model)
    step = target.with_suffix(".words.onnx")
    onnx.save(model, str(step))
    quantize_dynamic(str(step), str(target), weight_type=QuantType.QInt8, per_channel=True, op_types_to_quantize=["MatMul"])
    step.unlink()


def main():
    args = argparse.ArgumentParser()
    args.add_argument("kind", choices=("embedder", "reranker"))
    args.add_argument("--weights", required=True)
    args.add_argument("--tokenizer", required=True)
    args.add_argument("--out", required=True)
    args = args.parse_args()
    out = Path(args.out)
    out.mkdir(parents=True, exist_ok=True)
    state = {k: v.float() for k, v in torch.load(args.weights, map_location="cpu").items()}
    if args.kind == "embedder":
        vocab, layers = state["word.weight"].shape[0], layers_in(state, "layers.")
        model = Bert(vocab, layers, head=True)
        model.load_state_dict(state)
        model, output = Embedder(model), "last_hidden_state"
        settings = config(vocab, layers, architectures=["BertModel"], pooling="mean", normalize=True, dimensions=[384, 256, 128, 64],
                          do_lower_case=True, strip_accents=False)
        axes = {0: "batch", 1: "sequence"}
    else:
        vocab, layers, cross = state["bert.word.weight"].shape[0], layers_in(state, "bert.layers."), layers_in(state, "cross.")
        model = PairScorer(vocab, layers, cross)
        model.load_state_dict(state)
        model, output = Reranker(model), "logits"
        settings = config(vocab, layers + cross, architectures=["BertForSequenceClassification"], num_labels=1, output="logits",
                          activation="sigmoid", do_lower_case=True, strip_accents=True)
        axes = {0: "batch"}
    model.eval()
    ids = torch.randint(1000, 5000, (2, 24))
    mask, types = torch.ones_like(ids), torch.zeros_like(ids)
    ids[:, 0], ids[:, 8] = 101, 102
    types[:, 9:] = 1
    mask[1, 18:] = 0
    types, ids = types * mask, ids * mask
    seq = {0: "batch", 1: "sequence"}
    torch.onnx.export(model, (ids, mask, types), str(out / "model.onnx"), input_names=["input_ids", "attention_mask", "token_type_ids"],
                      output_names=[output], dynamic_axes={"input_ids": seq, "attention_mask": seq, "token_type_ids": seq, output: axes},
                      opset_version=17, dynamo=False)
    quantise(out / "model.onnx", out / "model_quantized.onnx")
    shutil.copy(args.tokenizer, out / "tokenizer.json")
    (out / "config.json").write_text(json.dumps(settings, indent=2) + "\n")
    import onnxruntime as ort
    feed = {"input_ids": ids.numpy(), "attention_mask": mask.numpy(), "token_type_ids": types.numpy()}
    with torch.no_grad():
        want = model(ids, mask, types)
    for name in ("model.onnx", "model_quantized.onnx"):
        got = torch.from_numpy(ort.InferenceSession(str(out / name), providers=["CPUExecutionProvider"]).run(None, feed)[0])
        if got.ndim == 3:
            got, ref = got[mask > 0], want[mask > 0]
            print(name, (out / name).stat().st_size, "mean cosine to torch", float(torch.cosine_similarity(got, ref, dim=-1).mean()))
        else:
            print(name, (out / name).stat().st_size, "scores", got[:, 0].tolist(), "torch", want[:, 0].tolist())
    for name in ("model_quantized.onnx", "tokenizer.json", "config.json"):
        print(hashlib.sha256((out / name).read_bytes()).hexdigest(), name)


if __name__ == "__main__":
    main()
