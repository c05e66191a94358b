#!/usr/bin/env bash
# Runs bench/embedding-layouts.ts from the unpacked packs in about three minutes.
#   run-embeddings.sh 0-15 [options of the benchmark]     on these cores only
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
first=${1%-*} last=${1#*-}
shift
count=$((last - first + 1))
export PATH=$here/bin:$PATH
exec taskset -c "$first-$last" node "$here/baobab/bench/embedding-layouts.ts" --layouts "${count}x1,$((count / 2))x2" "$@"
