"""Starts llama-server's code from the wheel of xllamacpp: llama_server.py MODEL PORT chat|embedding|rerank CONTEXT [IMAGE-ENCODER]"""

import json
import sys
import threading

import xllamacpp

model, port, task, context = sys.argv[1:5]
params = xllamacpp.CommonParams()
params.model.path = model
if len(sys.argv) > 5:
    params.mmproj.path = sys.argv[5]
params.model_alias = {"model"}
params.port = int(port)
params.n_ctx = int(context)
params.n_parallel = 2
params.use_jinja = True
params.endpoint_metrics = True
params.warmup = False
# Threads of ggml spin: one is faster than two on a busy machine.
params.cpuparams.n_threads = 1
params.cpuparams_batch.n_threads = 1
if task != "chat":
    params.embedding = True
    params.n_parallel = 1
    params.n_batch = params.n_ubatch = int(context)
    pooling = xllamacpp.llama_pooling_type
    params.pooling_type = (
        pooling.LLAMA_POOLING_TYPE_RANK if task == "rerank" else pooling.LLAMA_POOLING_TYPE_MEAN
    )
server = xllamacpp.Server(params)
print(json.dumps({"address": server.listening_address}), flush=True)
threading.Event().wait()
