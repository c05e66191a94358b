#!/usr/bin/env bash
# On the machine with the GPU: unpacks node-pack.tar.xz and gpu-pack.tar.xz into /tmp/baobab-gpu, builds the addon with the documented command, and llama-server in the same
# build tree, so that both use the same CUDA objects.
#   bench/gpu/build.sh <folder with the packs>     packs that are not there were unpacked before
set -euo pipefail
place=${PLACE:-/tmp/baobab-gpu}
mkdir -p "$place"
for pack in "$1"/*-pack.tar.xz; do tar xJf "$pack" -C "$place"; done
# The library calls npm only to start cmake-js.
cat >"$place/bin/npm" <<'NPM'
#!/usr/bin/env bash
while [ "$1" != -- ]; do shift; done
shift
cd "$(dirname "$0")/../baobab/node_modules/node-llama-cpp/llama" && exec node ../../cmake-js/bin/cmake-js "$@"
NPM
chmod +x "$place/bin/npm"
export PATH=$place/bin:/usr/local/cuda/bin:$PATH
cd "$place/baobab"
time node src/main.ts gpu build --backend "${BACKEND:-cuda}" --data-dir "$place/data" || [ "${BACKEND:-cuda}" = cpu ]
tree=$(echo node_modules/node-llama-cpp/llama/localBuilds/linux-x64*)
time (cmake -S node_modules/node-llama-cpp/llama -B "$tree" -DLLAMA_BUILD_TOOLS=ON -DLLAMA_BUILD_SERVER=ON -DLLAMA_OPENSSL=OFF \
  -DLLAMA_BUILD_UI=OFF -DLLAMA_USE_PREBUILT_UI=OFF >/dev/null && cmake --build "$tree" --target llama-server -j "$(nproc)" | tail -1)
find "$tree" -name llama-server -type f
