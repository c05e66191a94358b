#!/bin/sh
# Builds aac.wasm. Needs Rust 1.95 with the target wasm32-unknown-unknown; another version gives other bytes.
set -eu
cd "$(dirname "$0")"
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-/tmp/aac-target}"
# No paths of this machine in the file.
export RUSTFLAGS="--remap-path-prefix=${CARGO_HOME:-$HOME/.cargo}=cargo --remap-path-prefix=$PWD=aac"
cargo build --locked --release --target wasm32-unknown-unknown
cp "$CARGO_TARGET_DIR/wasm32-unknown-unknown/release/aac.wasm" aac.wasm
