#!/usr/bin/env bash
# Checks the documents against the program: check.sh DUOLOG. Builds nothing; writes only to a temporary directory.
#
# - Runs every shell example with <!-- tested --> directly above it, each in its own directory and home; those with
#   <!-- tested with postgres --> on a private server (duolog-postgres, in the directory of DUOLOG).
# - Compares read_home.py, which is written from docs/format.md alone, with `duolog sessions list`, also during writes.
# - Compares the columns in docs/format.md with the schema, checks that every named test exists and every link has a target.
set -uo pipefail

if [ $# -ne 1 ] || [ ! -x "$1" ]; then
  echo "usage: check.sh DUOLOG   (the binary)" >&2
  exit 2
fi
duolog=$(realpath "$1")
examples=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$examples/../.." && pwd)
for tool in python3 sqlite3 jq flock; do
  command -v "$tool" >/dev/null || { echo "check.sh needs $tool" >&2; exit 2; }
done

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/bin" "$work/blocks"
ln -s "$duolog" "$work/bin/duolog"
printf '#!/bin/sh\nexec python3 "%s" "$@"\n' "$examples/read_home.py" > "$work/bin/read_home.py"
chmod +x "$work/bin/read_home.py"
export PATH="$work/bin:$PATH"
# Settings of the caller's shell must not change an example.
unset DUOLOG_HOME DUOLOG_STORE DUOLOG_BUSY_TIMEOUT_MS PGPASSWORD NO_COLOR
passed=0
failed=0

# check NAME COMMAND...: runs the command and prints its output only if it fails.
check() {
  local name=$1
  shift
  # Not as a condition: `set -e` has no effect there.
  (set -eu; "$@") > "$work/said" 2>&1 < /dev/null
  if [ $? -eq 0 ]; then
    passed=$((passed + 1))
    echo "ok    $name"
  else
    failed=$((failed + 1))
    echo "FAIL  $name"
    sed 's/^/      /' "$work/said"
  fi
}

# --- Examples ---------------------------------------------------------------------------------------------------------

extract() {
  python3 - "$root" "$work/blocks" <<'PYTHON'
import pathlib, sys

root, out = map(pathlib.Path, sys.argv[1:])
number = 0
guides = sorted(str(guide.relative_to(root)) for guide in (root / "docs/guides").glob("*.md"))
for document in ["README.md", "docs/format.md", "docs/durability.md", *guides]:
    path = root / document
    if not path.exists():
        sys.exit(f"{document} does not exist")
    lines = path.read_text().split("\n")
    for at, line in enumerate(lines):
        if line.strip() not in ("<!-- tested -->", "<!-- tested with postgres -->"):
            continue
        if lines[at + 1 : at + 2] != ["```sh"]:
            sys.exit(f"{document}:{at + 1}: no ```sh block follows the mark")
        try:
            end = lines.index("```", at + 2)
        except ValueError:
            sys.exit(f"{document}:{at + 2}: the block does not end")
        number += 1
        name = f"{number:03}-{document.replace('/', '-')}-{at + 2}"
        if "postgres" in line:
            name += "-postgres"
        (out / f"{name}.sh").write_text("\n".join(lines[at + 2 : end]) + "\n")
PYTHON
}

run_block() {
  local dir
  dir=$(mktemp -d "$work/block.XXXX")
  # Examples name sample files as from the repository's root.
  ln -s "$root/docs" "$dir/docs"
  (cd "$dir" && DUOLOG_HOME="$dir/home" timeout 120 bash -eu "$1")
}

# Runs an example with the state on a new PostgreSQL server.
run_block_on_postgres() {
  local server
  server=$(dirname "$duolog")/duolog-postgres
  [ -x "$server" ] || { echo "$server does not exist; build it with: cargo build --workspace --bins"; return 1; }
  export -f run_block
  export root work
  "$server" run -- bash -c 'DUOLOG_STORE=$DUOLOG_TEST_POSTGRES run_block "$1"' _ "$1"
}

check "examples can be found" extract
for block in "$work"/blocks/*.sh; do
  [ -e "$block" ] || continue
  case "$block" in
    *-postgres.sh) check "example $(basename "$block" .sh)" run_block_on_postgres "$block" ;;
    *) check "example $(basename "$block" .sh)" run_block "$block" ;;
  esac
done

# --- A home, read twice -----------------------------------------------------------------------------------------------

export DUOLOG_HOME="$work/home"
logs="$DUOLOG_HOME/state/sessions"

fill() {
  mkdir "$work/project"
  seq 1 5000 | sed 's/.*/{"step":&,"text":"zwölf → 12"}/' | duolog log append --session long
  duolog log append --session odd \
    --line '{"lone":"\ud83d","nul":"\u0000","a":1,"a":2}' --line ' { "spaced" : [ ] } ' \
    --line '{"n":123456789012345678901234567890,"e":-1.5e300}' --line "$(printf '{"sep":"\u2028"}')"
  printf '{"crlf":1}\r\n' | duolog log append --session odd
  python3 -c 'print("{\"a\":" + "[" * 127 + "]" * 127 + "}")' | duolog log append --session odd
  duolog log append --user-email ada@example.com --session-name plan --line '{"n":1}' --operation-id step-1
  duolog log append --user-email ada@example.com --session-name plan --line '{"n":1}' --operation-id step-1
  (cd "$work/project" && duolog sessions new --cwd . --id with.dots)
  duolog log append --session with.dots --durability power --line '{"n":1}'
  duolog sessions new --name empty
  duolog log append --session old-name --line '{"n":1}'
  duolog sessions rename old-name new-name
  duolog log append --session gone --line '{"n":1}'
  duolog sessions delete gone --yes
  duolog log append --session damaged --line '{"n":1}'
  printf 'not json\n[1]\n\n{"bad":"\377"}\n{"n":NaN}\n\000\000\n' >> "$logs/threads/damaged.jsonl"
  python3 -c 'print("{\"a\":" + "[" * 128 + "]" * 128 + "}")' >> "$logs/threads/damaged.jsonl"
  duolog log append --session damaged --line '{"n":2}'
  duolog log append --session torn --line '{"n":1}' --line '{"n":2}'
  # Every log is compared with the state once per boot. After that, a torn tail without a mark is left as it is.
  duolog sessions list
  printf '{"half":"a writer was killed he' >> "$logs/threads/torn.jsonl"
}
check "a home can be filled" fill

fingerprint() {
  # No duolog process is running, so plain reads of the database drop no lock.
  find "$DUOLOG_HOME" -type f ! -name '*-shm' -print0 | LC_ALL=C sort -z | xargs -0 sha256sum
}

reading_changes_nothing() {
  fingerprint > "$work/before"
  read_home.py "$DUOLOG_HOME" --json > "$work/theirs.json" && read_home.py "$DUOLOG_HOME" long --last 3
  local code=$?
  fingerprint > "$work/after"
  diff "$work/before" "$work/after" && return "$code"
}
check "read_home.py changes no file" reading_changes_nothing

same_counts() {
  read_home.py "$DUOLOG_HOME" --json > "$work/theirs.json" || return
  duolog sessions list --json --limit 200 > "$work/ours.json" || return
  python3 - "$work/ours.json" "$work/theirs.json" <<'PYTHON'
import json, sys

ours, theirs = (json.load(open(path))["sessions"] for path in sys.argv[1:])
counts = lambda rows: [(row["id"], row["user_id"], row["name"], row["events"] or 0, row["bytes"] or 0) for row in rows]
if counts(ours) != counts(theirs) or not ours:
    for pair in zip(counts(ours), counts(theirs)):
        print("duolog %r\nreader %r" % pair)
    sys.exit(f"duolog lists {len(ours)} sessions, read_home.py {len(theirs)}")
PYTHON
}
check "read_home.py and duolog count the same" same_counts

finds() {
  jq -e --argjson want "$2" --arg name "$1" '.sessions[] | select(.name == $name) | . as $found |
    $want | to_entries | all(.value == $found[.key])' "$work/theirs.json" ||
    { jq -c --arg name "$1" '.sessions[] | select(.name == $name)' "$work/theirs.json"; return 1; }
}
check "it finds a torn tail" finds torn '{"events":2,"bytes":16,"torn_bytes":31,"cursor":"1:16"}'
check "it finds damaged lines" finds damaged '{"events":2,"damaged":7}'
check "it accepts odd lines" finds odd '{"events":6,"damaged":0,"torn_bytes":0,"behind":0}'
check "it finds an empty log" finds empty '{"events":0,"bytes":0,"cursor":"0:0"}'

same_lines() {
  for session in long odd damaged torn empty new-name with.dots; do
    for last in 0 1 3 4999 5001; do
      read_home.py "$DUOLOG_HOME" "$session" --last "$last" > "$work/theirs" 2>"$work/notes" || return
      duolog log cat "$session" --last "$last" --quiet > "$work/ours" || return
      cmp "$work/ours" "$work/theirs" || { echo "the last $last lines of $session differ"; return 1; }
    done
  done
}
check "it prints the same lines as duolog" same_lines

during_writes() {
  seq 1 20000 | sed 's/.*/{"n":&}/' > "$work/input"
  duolog log append --session busy --each --quiet < "$work/input" &
  local writer=$!
  # Ends the writer if a check below fails; this function runs in a subshell.
  trap "kill $writer 2>/dev/null || true" EXIT
  local looks=0 running=1
  while [ "$running" = 1 ] && [ "$looks" -lt 200 ]; do
    kill -0 "$writer" 2>/dev/null || running=0
    if read_home.py "$DUOLOG_HOME" busy --last 1000000 > "$work/seen" 2> "$work/notes"; then
      # The output is a prefix of the input, in complete lines.
      head -c "$(stat -c %s "$work/seen")" "$work/input" | cmp - "$work/seen" || return
      [ ! -s "$work/seen" ] || [ "$(tail -c 1 "$work/seen" | od -An -tx1 | tr -d ' ')" = 0a ] || return
      looks=$((looks + 1))
    elif [ "$running" = 0 ]; then
      cat "$work/notes"
      return 1
    fi
  done
  wait "$writer" || return
  trap - EXIT
  read_home.py "$DUOLOG_HOME" busy --last 1000000 | cmp - "$work/input"
}
check "it reads complete lines during writes" during_writes
check "they count the same after that" same_counts

refuses() {
  local code=0
  "${@:2}" || code=$?
  [ "$code" = "$1" ] || { echo "exit code $code instead of $1"; return 1; }
}
check "it refuses a directory that is not a home" refuses 4 read_home.py "$work/project"
check "it does not find a deleted session" refuses 1 read_home.py "$DUOLOG_HOME" gone

# --- The documents ----------------------------------------------------------------------------------------------------

columns_are_the_schemas() {
  python3 - "$root/docs/format.md" "$DUOLOG_HOME/state/state.db" <<'PYTHON'
import re, sqlite3, sys

text = open(sys.argv[1]).read()
database = sqlite3.connect(f"file:{sys.argv[2]}?mode=ro", uri=True)
real = {
    table: {row[1] for row in database.execute(f"PRAGMA table_info({table})")}
    for (table,) in database.execute("SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'")
}
documented = {}
for section in re.split(r"^#{2,3} ", text, flags=re.M):
    if head := re.match(r"`(\w+)` \((owned|derived)\)\n", section):
        body = section.split("| column | |\n")[1].split("\n\n")[0]
        cells = [line.split("|")[1] for line in body.splitlines() if not line.startswith("|---")]
        documented[head[1]] = set(re.findall(r"`(\w+)`", " ".join(cells)))
wrong = [f"{table}: {sorted(real.get(table, set()) ^ documented.get(table, set()))}" for table in real.keys() | documented.keys()
         if real.get(table) != documented.get(table)]
if wrong:
    sys.exit("the document and the schema differ: " + "; ".join(wrong))
version, application = (database.execute(f"PRAGMA {name}").fetchone()[0] for name in ("user_version", "application_id"))
if f"schema version, now {version}." not in text or str(application) not in text:
    sys.exit(f"the document does not say version {version}, application {application}")
PYTHON
}
check "the columns in format.md equal the schema" columns_are_the_schemas

named_tests_exist() {
  python3 - "$root" <<'PYTHON'
import pathlib, re, sys

root = pathlib.Path(sys.argv[1])
sources, wrong, found = {}, [], 0
for document in ["docs/format.md", "docs/durability.md"]:
    for crate, name in re.findall(r"`(duolog[a-z-]*)::(\w+)`", (root / document).read_text()):
        if crate not in sources:
            files = (root / "crates" / crate).rglob("*.rs")
            sources[crate] = "\n".join(file.read_text() for file in files)
        found += 1
        # A function, or a `name: What` that a macro expands to one.
        if not re.search(rf"\bfn {name}\(|^\s+{name}: \w+( .*)?,$", sources[crate], flags=re.M):
            wrong.append(f"{document} names {crate}::{name}")
if wrong or not found:
    sys.exit("\n".join(wrong) or "no test is named")
PYTHON
}
check "every test named in the documents exists" named_tests_exist

mutants_are_all() {
  diff <(sed -n '/pub enum Mutant/,/^}/s/^    \([A-Z][A-Za-z]*\).*,$/\1/p' "$root/crates/duolog-types/src/mutant.rs" | sort) \
    <(sed -n '/^| mutant /,/^$/s/^| `\([A-Za-z]*\)`.*/\1/p' "$root/docs/durability.md" | sort)
}
check "durability.md names every mutant" mutants_are_all

links_have_targets() {
  python3 - "$root" <<'PYTHON'
import pathlib, re, sys

root = pathlib.Path(sys.argv[1])
documents = [*root.glob("*.md"), *(root / "docs").glob("*.md"), *(root / "docs").glob("*/*.md")]
wrong = []
for document in documents:
    for target in re.findall(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)", re.sub(r"```.*?```", "", document.read_text(), flags=re.S)):
        if not (document.parent / target).exists():
            wrong.append(f"{document.relative_to(root)} links to {target}")
if wrong:
    sys.exit("\n".join(wrong))
PYTHON
}
check "every link between the documents has a target" links_have_targets

echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
