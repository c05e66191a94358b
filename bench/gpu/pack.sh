#!/usr/bin/env bash
# Packs what bench/llama-server.ts and bench/embedding-layouts.ts need on a machine without network, Node or npm.
#   bench/gpu/pack.sh <folder> [node] [source] [llama] [onnx] [models]
# writes <name>-pack.tar.xz for each of them, all five by default. They unpack into one folder.
# node: Node, and the programs that run the benchmarks. source: this source and the packages that the server needs.
# llama: the source of llama.cpp that builds with CUDA, and the head (metadata and vocabulary) of a GGUF file, from which
# bench/gpu/random-model.ts makes models on the machine. onnx: onnxruntime. models: the newest bundled embedding model, or the
# folders in $MODELS, such as MODELS='models/embed-multilingual/2026-11-19 models/embed-multilingual/2026-11-20'.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
out=$(mkdir -p "$1" && cd "$1" && pwd)
shift
packs=${*:-node source llama onnx models}
packages=$(cd "$root" && realpath node_modules)
gguf=${GGUF:-$HOME/.cache/baobab/models/huggingfacetb/smollm2-135m-instruct/2026-11-16/model.gguf}
stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT

pack_node() {
  mkdir bin
  cp "$packages/.bin/node" bin/node
  strip bin/node
  cp "$root/bench/gpu/run-embeddings.sh" "$root/bench/gpu/build.sh" "$root/bench/gpu/run-chat.sh" .
}

# The source without what it would download, and all packages of the server without the large ones.
pack_source() {
  mkdir -p baobab/node_modules
  (cd "$root" && git archive HEAD -- bin packages catalog bench test/acceptance/start-server.ts test/fixtures/free-port.ts \
    test/models/weights.ts package.json) |
    tar x -C baobab
  # The catalog names files that are not in the pack.
  rm -r baobab/catalog/baobab
  "$packages/.bin/node" -e '
    const { packages } = JSON.parse(require("fs").readFileSync(process.argv[1], "utf8"));
    const large = /onnxruntime|mediabunny|typescript|esbuild|@node-llama-cpp|node_modules\/node(-linux-x64|-llama-cpp)?$/;
    for (const [path, facts] of Object.entries(packages))
      if (path.startsWith("node_modules/") && !facts.dev && !large.test(path)) console.log(path.slice("node_modules/".length));
  ' "$root/package-lock.json" | while read -r name; do
    [ ! -d "$packages/$name" ] || echo "$name"
  done | tar c -C "$packages" --exclude='*.map' --exclude='*.md' --exclude='*.d.ts' --exclude='*.d.mts' --exclude='*.d.cts' \
    --exclude=zod/src -T - | tar x -C baobab/node_modules
}

# llama.cpp as the package would clone it, without what a CUDA build leaves out.
pack_llama() {
  mkdir -p baobab/node_modules baobab/bench/gpu
  tar c -C "$packages" --exclude='node-llama-cpp/llama/gitRelease.bundle' --exclude='*.map' --exclude='*.d.ts' \
    --exclude=localBuilds --exclude='node-llama-cpp/llama/llama.cpp' --exclude=templates node-llama-cpp | tar x -C baobab/node_modules
  local llama=baobab/node_modules/node-llama-cpp/llama tag
  git clone -q "$packages/node-llama-cpp/llama/gitRelease.bundle" "$stage/llama.cpp"
  tag=$("$packages/.bin/node" -p 'JSON.parse(require("fs").readFileSync(process.argv[1], "utf8")).release' \
    "$packages/node-llama-cpp/llama/binariesGithubRelease.json")
  mkdir -p "$llama/llama.cpp/.git"
  tar c -C "$stage/llama.cpp" --exclude=.git --exclude=ggml/src/ggml-vulkan --exclude=ggml/src/ggml-sycl \
    --exclude=ggml/src/ggml-opencl --exclude=ggml/src/ggml-cann --exclude=ggml/src/ggml-hexagon --exclude=ggml/src/ggml-webgpu \
    --exclude=ggml/src/ggml-metal --exclude=ggml/src/ggml-openvino --exclude=ggml/src/ggml-zendnn \
    --exclude=ggml/src/ggml-virtgpu --exclude=tools/ui/src --exclude=tools/ui/static --exclude=tools/ui/tests \
    --exclude=tools/server/tests --exclude=tools/mtmd/tests --exclude='*.gguf' \
    CMakeLists.txt LICENSE cmake common ggml include licenses scripts src tools vendor | tar x -C "$llama/llama.cpp"
  printf '{"tag": "%s", "llamaCppGithubRepo": "ggml-org/llama.cpp"}' "$tag" >"$llama/llama.cpp.info.json"
  head -c 8M "$gguf" >baobab/bench/gpu/head.gguf
}

pack_onnx() {
  mkdir -p baobab/node_modules
  tar c -C "$packages" --exclude=darwin --exclude=win32 --exclude=arm64 --exclude="*.map" onnxruntime-node onnxruntime-common |
    tar x -C baobab/node_modules
}

pack_models() {
  mkdir baobab
  local newest
  newest=$(cd "$root" && printf '%s\n' models/embed-multilingual/*/ | sort | tail -n 1)
  # Several folders are several words.
  # shellcheck disable=SC2086
  (cd "$root" && git archive HEAD -- ${MODELS:-$newest}) | tar x -C baobab
}

for pack in $packs; do
  mkdir "$stage/$pack"
  (cd "$stage/$pack" && "pack_$pack")
  tar c -C "$stage/$pack" . | xz -T0 -"${LEVEL:-6}" >"$out/$pack-pack.tar.xz"
done
ls -l "$out"
