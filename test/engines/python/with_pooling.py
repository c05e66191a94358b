"""Copies a GGUF file and marks the copy as an embedding model: with_pooling.py FROM TO"""

import sys

import gguf

source, target = sys.argv[1:3]
reader = gguf.GGUFReader(source)
architecture = reader.get_field("general.architecture").contents()
writer = gguf.GGUFWriter(target, architecture)
for field in reader.fields.values():
    if field.name.startswith("GGUF.") or field.name == "general.architecture":
        continue
    kind = field.types[0]
    inner = field.types[-1] if kind == gguf.GGUFValueType.ARRAY else None
    writer.add_key_value(field.name, field.contents(), kind, inner)
writer.add_pooling_type(gguf.PoolingType.MEAN)
for tensor in reader.tensors:
    writer.add_tensor(tensor.name, tensor.data, raw_dtype=tensor.tensor_type)
writer.write_header_to_file()
writer.write_kv_data_to_file()
writer.write_tensors_to_file()
writer.close()
