#!/usr/bin/env bash
# Compares the service on the GPU with llama-server, both built by build.sh, in under three minutes.
#   run-chat.sh 8b|1b|135m|<file.gguf> [options of bench/llama-server.ts]     a size is a Llama with random weights, made here
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
model=$1
shift
export PATH=$here/bin:$PATH
cd "$here/baobab"
if [ ! -f "$model" ]; then
  file=$here/$model.gguf
  [ -f "$file" ] || node bench/gpu/random-model.ts "$model" "$file"
  model=$file
fi
LLAMA_SERVER=$(cat "$here/llama-server.path") exec node bench/llama-server.ts --gpu --model "$model" --data-dir "$here/data" \
  --streams 1,8,32 --tokens 128 --rounds 4 "$@"
