"""Stands in for the llama-server that Ollama starts, with llama-server's code from the wheel of xllamacpp: it takes the options that Ollama gives."""

import argparse
import sys
import threading

import xllamacpp

if "--list-devices" in sys.argv:
    print("Available devices:")
    sys.exit()

parser = argparse.ArgumentParser(allow_abbrev=False)
parser.add_argument("--model")
parser.add_argument("--port", type=int)
parser.add_argument("-c", type=int, default=0)
parser.add_argument("-np", type=int, default=1)
parser.add_argument("-b", type=int)
parser.add_argument("-ub", type=int)
parser.add_argument("-t", type=int)
parser.add_argument("--keep", type=int, default=0)
parser.add_argument("--chat-template", default="")
parser.add_argument("--embedding", action="store_true")
parser.add_argument("--context-shift", action="store_true")
parser.add_argument("--no-jinja", action="store_true")
given, _ = parser.parse_known_args()

# Ollama first starts it without a model, to learn of GPUs, and ends it after this line.
if given.model is None:
    print("system_info: no GPU", file=sys.stderr, flush=True)
    threading.Event().wait()

params = xllamacpp.CommonParams()
params.model.path = given.model
params.port = given.port
params.n_ctx = given.c
params.n_parallel = given.np
params.n_keep = given.keep
params.embedding = given.embedding
params.ctx_shift = given.context_shift
params.use_jinja = not given.no_jinja
params.chat_template = given.chat_template
params.warmup = False
if given.b is not None:
    params.n_batch = given.b
if given.ub is not None:
    params.n_ubatch = given.ub
if given.t is not None:
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = given.t
server = xllamacpp.Server(params)
threading.Event().wait()
