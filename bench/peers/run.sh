#!/bin/sh
# Stores the same items durably with Duolog and with the stores of agent frameworks, three runs each in turns, and writes the
# benchmarks to target/peers.json. Peers are installed from PyPI into a temporary virtual environment; all temporary files are
# removed.
#
#   bench/peers/run.sh [ITEMS]                          number of items [default: 300]
#   DUOLOG=path BENCH=path bench/peers/run.sh           use binaries that are already built
set -eu
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
target=${CARGO_TARGET_DIR:-$root/target}

if [ -z "${DUOLOG:-}" ]; then
    cargo build --quiet --release -p duolog-cli --manifest-path "$root/Cargo.toml"
    DUOLOG=$target/release/duolog
fi
if [ -z "${BENCH:-}" ]; then
    cargo build --quiet --release -p duolog-bench --manifest-path "$root/Cargo.toml"
    BENCH=$target/release/duolog-bench
fi

# In the target directory, not in /tmp, which may be in memory, where a sync costs nothing.
mkdir -p "$target"
directory=$(mktemp -d "$target/bench-peers.XXXXXX")
trap 'rm -rf "$directory"' EXIT
trap 'exit 1' INT TERM

python3 -m venv "$directory/venv"
if ! "$directory/venv/bin/pip" install --quiet --disable-pip-version-check -r "$here/requirements.txt" >"$directory/pip.log" 2>&1
then
    tail -n 5 "$directory/pip.log" >&2
    echo "bench-peers: cannot install the peers with pip; no comparison is possible" >&2
    exit 1
fi
"$directory/venv/bin/python" "$here/peers.py" "$DUOLOG" "$BENCH" "$directory" "${1:-300}" "$target/peers.json"
