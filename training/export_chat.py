"""Write the trained chat model as GGUF, 5 bits a weight:

    python export_chat.py --start start.gguf --weights OUT/model.pt --start-share 0.15 --version 2026-11-18 --out model.gguf

The weights are mixed with those of the start model, which keeps more of its English. The header is that of the start model with another name
and chat template. --weights may also be a GGUF file."""
import argparse

import torch
from gguf import GGMLQuantizationType, GGUFReader, GGUFValueType, GGUFWriter, LlamaFileType
from gguf.quants import quantize

from chat_examples import LANGUAGES, TEMPLATE
from chat_model import read_gguf

SHORT = {"swh": "sw", "zul": "zu", "tsn": "tn", "plt": "mg", "nya": "ny", "hau": "ha", "yor": "yo", "sna": "sn", "ewe": "ee", "twi": "tw"}


def main():
    args = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    args.add_argument("--start", required=True)
    args.add_argument("--weights", required=True)
    args.add_argument("--start-share", type=float, default=0.0)
    args.add_argument("--version", required=True)
    args.add_argument("--out", required=True)
    args = args.parse_args()
    reader, start = GGUFReader(args.start), read_gguf(args.start)[1]
    tuned = read_gguf(args.weights)[1] if args.weights.endswith(".gguf") else torch.load(args.weights, map_location="cpu")
    writer = GGUFWriter(args.out, "llama")
    own = {
        "general.name": f"baobab/chat-mini {args.version}", "general.organization": "Baobab", "general.basename": "chat-mini", "general.finetune": args.version,
        "general.file_type": int(LlamaFileType.MOSTLY_Q5_0), "general.languages": ["en", *(SHORT[lang] for lang in LANGUAGES)], "tokenizer.chat_template": TEMPLATE}
    for name, field in reader.fields.items():
        if name.startswith("GGUF.") or name == "general.architecture":
            continue
        kind = field.types[0]
        writer.add_key_value(name, own.get(name, field.contents()), kind, sub_type=field.types[-1] if kind == GGUFValueType.ARRAY else None)
    for tensor in reader.tensors:
        values = torch.lerp(tuned[tensor.name].float(), start[tensor.name], args.start_share).numpy()
        if values.ndim < 2:
            writer.add_tensor(tensor.name, values)
        else:
            writer.add_tensor(tensor.name, quantize(values, GGMLQuantizationType.Q5_0), raw_dtype=GGMLQuantizationType.Q5_0)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    main()
