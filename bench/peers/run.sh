#!/bin/sh
# Keeps the same items durably with Duolog and with what agent frameworks ship, three runs each in turns, and writes the
# figures to target/peers.json. Peers come from PyPI into a virtual environment of this run alone; everything else it makes it
# removes.
#
#   bench/peers/run.sh [ITEMS]                          300 items by default
#   DUOLOG=path BENCH=path bench/peers/run.sh           with commands that are built already
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

# Beside the target directory, not in /tmp: that may be memory, where a sync costs nothing.
mkdir -p "$target"
room=$(mktemp -d "$target/bench-peers.XXXXXX")
trap 'rm -rf "$room"' EXIT
trap 'exit 1' INT TERM

python3 -m venv "$room/venv"
if ! "$room/venv/bin/pip" install --quiet --disable-pip-version-check -r "$here/requirements.txt" >"$room/pip.log" 2>&1
then
    tail -n 5 "$room/pip.log" >&2
    echo "bench-peers: pip could not install the peers; without them there is nothing to compare" >&2
    exit 1
fi
"$room/venv/bin/python" "$here/peers.py" "$DUOLOG" "$BENCH" "$room" "${1:-300}" "$target/peers.json"
