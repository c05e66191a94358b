#!/bin/sh
# Installs Baobab from this folder without a network: ./install.sh [--prefix DIR]
# It writes DIR/lib/baobab and the command DIR/bin/baobab; DIR is ~/.local if it is not given. Run it again to upgrade. To uninstall, remove both.
set -eu

fail() {
  echo "install.sh: $1" >&2
  exit 1
}

prefix="${HOME:-}/.local"
while [ $# -gt 0 ]; do
  case "$1" in
    --prefix)
      [ $# -ge 2 ] || fail '--prefix needs a folder'
      prefix="$2"
      shift 2
      ;;
    *) fail "'$1' is no option. Usage: ./install.sh [--prefix DIR]" ;;
  esac
done
mkdir -p "$prefix/lib" "$prefix/bin" || fail "cannot write to $prefix: name another folder with --prefix"
prefix=$(cd "$prefix" && pwd)
here=$(cd "$(dirname "$0")" && pwd)
target="$prefix/lib/baobab"
case "$prefix" in
  *[\"\$\`\\]*) fail "the folder $prefix has a character that the command could not quote" ;;
esac
[ "$here" != "$target" ] || fail 'this folder is the installation itself'

# The Node that is here is used if it is the version that Baobab is tested with.
node=$(command -v node || true)
case "$("${node:-false}" --version 2>/dev/null || true)" in
  v24.*) ;;
  *)
    node="$target/node/bin/node"
    "$here/node/bin/node" --version >/dev/null || fail 'the Node of this bundle does not run here: it is for another processor, or for a newer system'
    ;;
esac

# In a folder of its own first, so that an installation that is interrupted leaves the old one.
rm -rf "$target.new" "$target.old"
mkdir "$target.new"
for each in LICENSE README.md node_modules; do cp -R "$here/$each" "$target.new/"; done
[ "$node" != "$target/node/bin/node" ] || cp -R "$here/node" "$target.new/"
[ ! -e "$target" ] || mv "$target" "$target.old"
mv "$target.new" "$target"
rm -rf "$target.old"

cat >"$prefix/bin/baobab.new" <<END
#!/bin/sh
exec "$node" "$target/node_modules/baobab/bin/installed.mjs" "\$@"
END
chmod 755 "$prefix/bin/baobab.new"
mv "$prefix/bin/baobab.new" "$prefix/bin/baobab"

echo "Installed $("$prefix/bin/baobab" --version) as $prefix/bin/baobab, with the Node of $node"
case ":$PATH:" in
  *":$prefix/bin:"*) ;;
  *) echo "Add $prefix/bin to your PATH, then: baobab serve" ;;
esac
