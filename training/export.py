"""From trained weights to the shipped files: a float32 ONNX graph, its int8 form, tokenizer and config.

    python export.py embedder --weights student.pt --tokenizer tokenizer.json --out DIR
    python export.py reranker --weights reranker.pt --tokenizer tokenizer.json --out DIR --middle MIDDLE --steepness STEEPNESS

It fails if the int8 vectors differ from those of the float weights by more than quantisation should. The lines it prints at the end are
those of the catalog. --float also leaves the float32 graph in DIR."""
import argparse
import copy
import hashlib
import json
import shutil
import sys
import tempfile
from pathlib import Path
from types import MethodType

import numpy as np
import onnx
import onnxruntime as ort
import torch
import torch.nn as nn
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import QuantType, quantize_dynamic
from tokenizers import Tokenizer

from model import Bert, mean_pool
from pair_model import PairScorer


def plain(layer, x, bias):
    """What a layer computes, in fewer steps: the scale of attention is part of the query's weights, shapes are written once."""
    heads = lambda t: t.view(*x.shape[:2], layer.heads, -1)
    q, k, v = heads(layer.q(x)).transpose(1, 2), heads(layer.k(x)).permute(0, 2, 3, 1), heads(layer.v(x)).transpose(1, 2)
    mixed = torch.softmax(q @ k + bias, -1) @ v
    x = layer.ln1(x + layer.o(mixed.transpose(1, 2).reshape(x.shape)))
    return layer.ln2(x + layer.f2(torch.nn.functional.gelu(layer.f1(x))))


def simplify(layers):
    for layer in layers:
        scale = (layer.q.out_features // layer.heads) ** -0.5
        layer.q.weight.data *= scale
        layer.q.bias.data *= scale
        layer.forward = MethodType(plain, layer)


class Embedder(nn.Module):
    def __init__(self, bert):
        super().__init__()
        self.bert = bert
        simplify(bert.layers)

    def forward(self, input_ids, attention_mask, token_type_ids):
        return self.bert(input_ids, attention_mask, token_type_ids)


class Reranker(nn.Module):
    def __init__(self, scorer):
        super().__init__()
        self.scorer = scorer
        simplify([*scorer.bert.layers, *scorer.cross])

    def forward(self, input_ids, attention_mask, token_type_ids):
        return self.scorer(input_ids, attention_mask, token_type_ids)


def layers_in(state, prefix):
    return 1 + max(int(k.removeprefix(prefix).split(".")[0]) for k in state if k.startswith(prefix))


def config(vocab, layers, width=384, inner=1536, **more):
    return {
        "model_type": "bert", "vocab_size": vocab, "hidden_size": width, "num_hidden_layers": layers, "num_attention_heads": 12,
        "intermediate_size": inner, "hidden_act": "gelu", "layer_norm_eps": 1e-12, "max_position_embeddings": 512,
        "type_vocab_size": 2, "pad_token_id": 0, **more,
    }


def quantise(source, target):
    """Matrix products become int8 with one scale per output channel and ranges of activations taken at run time; the
    tables of words and positions become int8 with one scale per row, which one scale for all would round too coarsely."""
    model = onnx.load(str(source))
    graph = model.graph
    table = {t.name: t for t in graph.initializer}
    nodes, words = [], set()
    for node in graph.node:
        name = node.input[0] if node.op_type == "Gather" else None
        if name not in table or len(table[name].dims) != 2 or table[name].dims[0] < 500 or table[name].dims[1] < 2:
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


# Random weights of twelve layers reach 0.9999; trained ones are less even. 0.994 is what the first version had with one range for a batch.
LEAST_COSINE = 0.98


def example(vocab, batch, length):
    """Two parts, as of a pair, and a shorter last row."""
    ids = torch.randint(1000, vocab, (batch, length), generator=torch.Generator().manual_seed(length))
    mask, types = torch.ones_like(ids), torch.zeros_like(ids)
    ids[:, 0], ids[:, length // 3] = 101, 102
    types[:, length // 3 + 1:] = 1
    mask[-1, length * 3 // 4:] = 0
    return ids * mask, mask, types * mask


def embedder(state):
    vocab, layers, width = state["word.weight"].shape[0], layers_in(state, "layers."), state["word.weight"].shape[1]
    bert = Bert(vocab, layers, width=width, head="head.weight" in state)
    bert.load_state_dict(state)
    settings = config(vocab, layers, width, state["layers.0.f1.weight"].shape[0], architectures=["BertModel"], pooling="mean", normalize=True,
                      dimensions=[384, 256, 128, 64], do_lower_case=True, strip_accents=False)
    return bert, Embedder(copy.deepcopy(bert)), "last_hidden_state", {0: "batch", 1: "sequence"}, settings


def reranker(state, middle, steepness):
    """The score curve (see fit_rerank_curve.py) becomes part of the weights."""
    vocab, layers, cross = state["bert.word.weight"].shape[0], layers_in(state, "bert.layers."), layers_in(state, "cross.")
    scorer = PairScorer(vocab, layers, cross)
    scorer.load_state_dict(state)
    for part in (scorer.mix, scorer.read[2].weight, scorer.read[2].bias):
        part.data *= steepness
    scorer.bias.data = (scorer.bias.data - middle) * steepness
    settings = config(vocab, layers + cross, architectures=["BertForSequenceClassification"], num_labels=1, output="logits",
                      activation="sigmoid", do_lower_case=True, strip_accents=False)
    return scorer, Reranker(copy.deepcopy(scorer)), "logits", {0: "batch"}, settings


def check(trained, file, vocab, kind):
    """Against the model as it was trained, row by row: onnxruntime alone takes one range of activations for a batch."""
    session = ort.InferenceSession(str(file), providers=["CPUExecutionProvider"])
    least = 1.0
    for length in (8, 24, 128, 512):
        ids, mask, types = example(vocab, 3, length)
        with torch.no_grad():
            want = trained(ids, mask, types)
        rows = [session.run(None, {"input_ids": ids[r:r + 1].numpy(), "attention_mask": mask[r:r + 1].numpy(), "token_type_ids": types[r:r + 1].numpy()})[0]
                for r in range(3)]
        got = torch.from_numpy(np.concatenate(rows))
        if kind == "embedder":
            least = min(least, float(torch.cosine_similarity(mean_pool(got, mask), mean_pool(want, mask), dim=-1).min()))
        else:
            print(file.name, f"{length} tokens, scores", got[:, 0].tolist(), "trained", want[:, 0].tolist())
    if kind == "embedder":
        print(f"{file.name}: {file.stat().st_size} bytes, least cosine to the trained model {least:.5f}")
    return least >= LEAST_COSINE


def main():
    args = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    args.add_argument("kind", choices=("embedder", "reranker"))
    args.add_argument("--weights", required=True)
    args.add_argument("--tokenizer", required=True)
    args.add_argument("--out", required=True)
    args.add_argument("--float", action="store_true")
    args.add_argument("--middle", type=float, default=0, help="of the score curve of a reranker")
    args.add_argument("--steepness", type=float, default=1)
    args = args.parse_args()
    out = Path(args.out)
    out.mkdir(parents=True, exist_ok=True)
    state = {k: v.float() for k, v in torch.load(args.weights, map_location="cpu").items()}
    trained, model, output, axes, settings = embedder(state) if args.kind == "embedder" else reranker(state, args.middle, args.steepness)
    vocab, pieces = settings["vocab_size"], Tokenizer.from_file(args.tokenizer).get_vocab_size()
    if pieces > vocab:
        sys.exit(f"The tokenizer has {pieces} pieces, the weights have {vocab}.")
    trained.eval()
    model.eval()
    with tempfile.TemporaryDirectory() as work:
        graph = (out if args.float else Path(work)) / "model.onnx"
        seq = {0: "batch", 1: "sequence"}
        names = ["input_ids", "attention_mask", "token_type_ids"]
        torch.onnx.export(model, example(vocab, 2, 24), str(graph), input_names=names, output_names=[output],
                          dynamic_axes={**{name: seq for name in names}, output: axes}, opset_version=17, dynamo=False)
        quantise(graph, out / "model_quantized.onnx")
        right = check(trained, graph, vocab, args.kind)
        right &= check(trained, out / "model_quantized.onnx", vocab, args.kind)
    shutil.copyfile(args.tokenizer, out / "tokenizer.json")
    (out / "config.json").write_text(json.dumps(settings, indent=2) + "\n")
    for name in ("model_quantized.onnx", "tokenizer.json", "config.json"):
        data = (out / name).read_bytes()
        print(f"        - {{ as: {name}, sha256: {hashlib.sha256(data).hexdigest()}, bytes: {len(data)} }}")
    if not right:
        sys.exit(f"Some vectors are below {LEAST_COSINE} of those of the trained model.")


if __name__ == "__main__":
    main()
