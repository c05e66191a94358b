"""Writes an image encoder with random weights for a chat model of llama.cpp: tiny_mmproj.py FILE WIDTH, with the width of the chat model."""

import sys

import gguf
import numpy

file, width = sys.argv[1], int(sys.argv[2])
IMAGE_SIZE, PATCH_SIZE, HIDDEN, INNER, LAYERS, HEADS = 56, 14, 64, 128, 2, 2
random = numpy.random.default_rng(0)
writer = gguf.GGUFWriter(file, "clip")
writer.add_bool("clip.has_vision_encoder", True)
writer.add_string("clip.projector_type", "mlp")
writer.add_bool("clip.use_gelu", True)
writer.add_uint32("clip.vision.image_size", IMAGE_SIZE)
writer.add_uint32("clip.vision.patch_size", PATCH_SIZE)
writer.add_uint32("clip.vision.embedding_length", HIDDEN)
writer.add_uint32("clip.vision.feed_forward_length", INNER)
writer.add_uint32("clip.vision.projection_dim", width)
writer.add_uint32("clip.vision.block_count", LAYERS)
writer.add_uint32("clip.vision.attention.head_count", HEADS)
writer.add_float32("clip.vision.attention.layer_norm_epsilon", 1e-5)
writer.add_array("clip.vision.image_mean", [0.5, 0.5, 0.5])
writer.add_array("clip.vision.image_std", [0.5, 0.5, 0.5])


def add(name, *shape):
    writer.add_tensor(name, (random.standard_normal(shape) * 0.1).astype(numpy.float32))


def add_layer(name, inputs, outputs):
    add(f"{name}.weight", outputs, inputs)
    add(f"{name}.bias", outputs)


def add_norm(name):
    writer.add_tensor(f"{name}.weight", numpy.ones(HIDDEN, numpy.float32))
    writer.add_tensor(f"{name}.bias", numpy.zeros(HIDDEN, numpy.float32))


patches = (IMAGE_SIZE // PATCH_SIZE) ** 2
add("v.patch_embd.weight", HIDDEN, 3, PATCH_SIZE, PATCH_SIZE)
add("v.class_embd", HIDDEN)
add("v.position_embd.weight", patches + 1, HIDDEN)
add_norm("v.pre_ln")
for layer in range(LAYERS):
    for part in ["attn_q", "attn_k", "attn_v", "attn_out"]:
        add_layer(f"v.blk.{layer}.{part}", HIDDEN, HIDDEN)
    for norm in ["ln1", "ln2"]:
        add_norm(f"v.blk.{layer}.{norm}")
    add_layer(f"v.blk.{layer}.ffn_up", HIDDEN, INNER)
    add_layer(f"v.blk.{layer}.ffn_down", INNER, HIDDEN)
add_layer("mm.0", HIDDEN, width)
add_layer("mm.2", width, width)
writer.write_header_to_file()
writer.write_kv_data_to_file()
writer.write_tensors_to_file()
writer.close()
