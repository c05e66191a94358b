#!/usr/bin/env bash
# Packs what bench/gpu.ts and bench/embedding-layouts.ts need on a machine without network, Node or npm.
#   bench/gpu/pack.sh <folder>     writes node-pack.tar.xz, gpu-pack.tar.xz and onnx-pack.tar.xz there; all unpack into one folder
# gpu-pack: this source without its models, the packages that the server needs, the source of llama.cpp that builds with CUDA, and the head
# (metadata and vocabulary) of a GGUF file, from which bench/gpu/random-model.ts makes models on the machine.
# onnx-pack: onnxruntime. bench/embedding-layouts.ts also needs models/ and catalog/ of this source.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
out=$(mkdir -p "$1" && cd "$1" && pwd)
packages=$(cd "$root" && realpath node_modules)
gguf=${GGUF:-$HOME/.cache/baobab/models/huggingfacetb/smollm2-135m-instruct/2026-11-16/model.gguf}
stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
mkdir -p "$stage/gpu/baobab" "$stage/node/bin" "$stage/onnx/baobab/node_modules/onnxruntime-node"

# The source.
(cd "$root" && git archive HEAD -- bin src catalog bench test/acceptance/start-server.ts test/models/weights.ts package.json) |
  tar x -C "$stage/gpu/baobab"
# The catalog names files that are not in the pack.
rm -r "$stage/gpu/baobab/catalog/baobab"

# Packages of the server: all that are not for development, without the large ones.
"$packages/.bin/node" -e '
  const { packages } = JSON.parse(require("fs").readFileSync(process.argv[1], "utf8"));
  const large = /onnxruntime|mediabunny|typescript|@node-llama-cpp|node_modules\/node$|node_modules\/node-llama-cpp$/;
  for (const [path, facts] of Object.entries(packages))
    if (path.startsWith("node_modules/") && !facts.dev && !large.test(path)) console.log(path.slice("node_modules/".length));
' "$root/package-lock.json" | while read -r name; do
  [ -d "$packages/$name" ] && echo "$name"
done | tar c -C "$packages" --exclude='*.map' --exclude='*.md' --exclude='*.d.ts' --exclude='*.d.mts' --exclude='*.d.cts' -T - |
  (mkdir -p "$stage/gpu/baobab/node_modules" && tar x -C "$stage/gpu/baobab/node_modules")
tar c -C "$packages" --exclude='node-llama-cpp/llama/gitRelease.bundle' --exclude='*.map' --exclude='*.d.ts' --exclude=localBuilds \
  --exclude='node-llama-cpp/llama/llama.cpp' --exclude=templates node-llama-cpp | tar x -C "$stage/gpu/baobab/node_modules"
cp "$packages/.bin/node" "$stage/node/bin/node"
strip "$stage/node/bin/node"

# llama.cpp as the package would clone it, without what a CUDA build leaves out.
llama=$stage/gpu/baobab/node_modules/node-llama-cpp/llama
git clone -q "$packages/node-llama-cpp/llama/gitRelease.bundle" "$stage/llama.cpp"
tag=$("$packages/.bin/node" -p 'JSON.parse(require("fs").readFileSync(process.argv[1], "utf8")).release' "$packages/node-llama-cpp/llama/binariesGithubRelease.json")
mkdir -p "$llama/llama.cpp/.git"
tar c -C "$stage/llama.cpp" --exclude=.git --exclude=ggml/src/ggml-vulkan --exclude=ggml/src/ggml-sycl --exclude=ggml/src/ggml-opencl \
  --exclude=ggml/src/ggml-cann --exclude=ggml/src/ggml-hexagon --exclude=ggml/src/ggml-webgpu --exclude=ggml/src/ggml-metal \
  --exclude=ggml/src/ggml-openvino --exclude=ggml/src/ggml-zendnn --exclude=ggml/src/ggml-virtgpu --exclude=tools/ui/src \
  --exclude=tools/ui/static --exclude=tools/ui/tests --exclude=tools/server/tests --exclude=tools/mtmd/tests --exclude='*.gguf' \
  CMakeLists.txt LICENSE cmake common ggml include licenses scripts src tools vendor | tar x -C "$llama/llama.cpp"
printf '{"tag": "%s", "llamaCppGithubRepo": "ggml-org/llama.cpp"}' "$tag" >"$llama/llama.cpp.info.json"
mkdir -p "$stage/gpu/baobab/bench/gpu"
head -c 8M "$gguf" >"$stage/gpu/baobab/bench/gpu/head.gguf"

# onnxruntime.
tar c -C "$packages/onnxruntime-node" --exclude=darwin --exclude=win32 --exclude=arm64 --exclude='*.map' . |
  tar x -C "$stage/onnx/baobab/node_modules/onnxruntime-node"

for pack in node gpu onnx; do
  tar c -C "$stage/$pack" . | xz -T0 -"${LEVEL:-6}" >"$out/$pack-pack.tar.xz"
done
ls -l "$out"
