#!/usr/bin/env bash
# On the machine with the GPU, in the folder of the unpacked packs: builds the addon with the documented command, and llama-server in the
# same build tree, so that both use the same CUDA objects. Writes the path of llama-server to llama-server.path when all is done.
#   build.sh [0-11]     on these cores only
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
taskset -pc "${1:-0-$(($(nproc) - 1))}" $$ >/dev/null
# The library calls npm only to start cmake-js.
cat >"$here/bin/npm" <<'NPM'
#!/usr/bin/env bash
while [ "$1" != -- ]; do shift; done
shift
cd "$(dirname "$0")/../baobab/node_modules/node-llama-cpp/llama" && exec node ../../cmake-js/bin/cmake-js "$@"
NPM
chmod +x "$here/bin/npm"
export PATH=$here/bin:/usr/local/cuda/bin:$PATH
# Of the machine's own GPU without it. Naming it saves the compiler the code for later ones.
[ -z "${ARCHITECTURE:-}" ] || export NODE_LLAMA_CPP_CMAKE_OPTION_CMAKE_CUDA_ARCHITECTURES=$ARCHITECTURE
cd "$here/baobab"
time node packages/server/src/main.ts gpu build --backend "${BACKEND:-cuda}" --data-dir "$here/data" || [ "${BACKEND:-cuda}" = cpu ]
tree=$(echo node_modules/node-llama-cpp/llama/localBuilds/linux-x64*)
time (cmake -S node_modules/node-llama-cpp/llama -B "$tree" -DLLAMA_BUILD_TOOLS=ON -DLLAMA_BUILD_SERVER=ON -DLLAMA_OPENSSL=OFF \
  -DLLAMA_BUILD_UI=OFF -DLLAMA_USE_PREBUILT_UI=OFF >/dev/null && cmake --build "$tree" --target llama-server -j "$(nproc)" | tail -1)
find "$PWD/$tree" -name llama-server -type f >"$here/llama-server.path"
cat "$here/llama-server.path"
