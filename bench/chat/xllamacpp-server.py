"""llama-server from the PyPI package xllamacpp, which has its code as a library. Takes the flags of llama-server that the benchmark uses."""

import argparse
import time

import xllamacpp

flags = argparse.ArgumentParser()
for name in ("--model", "--host"):
    flags.add_argument(name)
for name in ("--port", "--threads", "--parallel", "--ctx-size", "--n-gpu-layers"):
    flags.add_argument(name, type=int, default=0)
options, _ = flags.parse_known_args()

params = xllamacpp.CommonParams()
params.model.path = options.model
params.port = options.port
params.cpuparams.n_threads = options.threads
params.cpuparams_batch.n_threads = options.threads
params.n_parallel = options.parallel
params.n_ctx = options.ctx_size
params.n_gpu_layers = options.n_gpu_layers
params.kv_unified = False
params.use_jinja = True
params.ui = False
server = xllamacpp.Server(params)
print(server.listening_address, flush=True)
while True:
    time.sleep(3600)
