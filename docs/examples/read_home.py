#!/usr/bin/env python3
"""Reads a Duolog home without Duolog, written from docs/format.md alone. Python 3.11, standard library only.

    read_home.py HOME [--json]             list sessions with their events and bytes
    read_home.py HOME SESSION [--last N]   print the last N lines of a session, byte for byte

HOME is the directory of `--home` or `DUOLOG_HOME`. SESSION is an id or a thread name. Nothing is written or
repaired. Seals are not checked: BLAKE3 is not in the standard library.

Exit code: 0 success, 1 session not found, 3 a writer held a lock too long, 4 not a home that this reader supports.
"""

import argparse
import fcntl
import json
import os
import re
import sqlite3
import stat
import sys
import time
from pathlib import Path
from urllib.parse import quote

APPLICATION_ID = 0x44756F4C
VERSION_KNOWN = 100
LINE_BYTES_MAX = 64 << 20
JSON_DEPTH_MAX = 128
CHUNK = 256 * 1024
LOCK_SECONDS = 5


class Refused(Exception):
    """A request that cannot be served; `code` is the exit code."""

    def __init__(self, message, code):
        super().__init__(message)
        self.code = code


def open_state(state):
    """Opens state.db read-only, while others may write, and checks its lineage and version."""
    path = state / "state.db"
    if not path.is_file():
        raise Refused(f"there is no home at {state}", 4)
    database = sqlite3.connect(f"file:{quote(str(path.resolve()))}?mode=ro", uri=True, isolation_level=None)
    database.row_factory = sqlite3.Row
    database.execute("PRAGMA query_only=ON")
    database.execute(f"PRAGMA busy_timeout={LOCK_SECONDS * 1000}")
    if database.execute("PRAGMA application_id").fetchone()[0] != APPLICATION_ID:
        raise Refused(f"{path} is not a Duolog database", 4)
    meta = dict(database.execute("SELECT key, value FROM schema_meta").fetchall())
    version = database.execute("PRAGMA user_version").fetchone()[0]
    if meta.get("lineage") != "duolog" or meta.get("version") != str(version):
        raise Refused(f"{path} says {meta} and version {version}", 4)
    # A newer schema only adds tables and columns; those that this reader uses keep their meaning.
    if version < VERSION_KNOWN:
        raise Refused(f"{path} has schema version {version}, older than {VERSION_KNOWN}", 4)
    return database


def sessions(state, database):
    """Returns the sessions whose logs are in this home, last changed first."""
    home = (state / "home_id").read_text().strip()
    return database.execute(
        "SELECT s.id, s.user_id, s.name, s.log_path, s.log_base, s.log_epoch, s.unlink_due, c.events AS folded_events,"
        " c.bytes AS folded_bytes, c.position AS folded_to"
        " FROM sessions s LEFT JOIN catalog c ON c.session_id = s.id AND c.epoch = s.log_epoch"
        " WHERE s.deleted_at IS NULL AND s.home_id = ? ORDER BY s.updated_at DESC, s.id DESC",
        [home],
    ).fetchall()


class Log:
    """A log, open for reading. `end` is its stable end and `torn` the number of bytes after it, at the time of opening."""

    def __init__(self, state, row):
        self.base, self.end, self.torn, self.closed, self.file = row["log_base"], row["log_base"], 0, False, None
        if row["unlink_due"]:
            return  # A file at the path belongs to the previous epoch.
        try:
            # Follows no link in the last component, and does not block on a pipe.
            file = os.open(state / row["log_path"], os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except FileNotFoundError:
            return  # An absent file is an empty log.
        self.file = file
        if not stat.S_ISREG(os.fstat(file).st_mode):
            raise Refused(f"{row['log_path']} is not a file", 4)
        self.take_stable_end(row["log_path"])

    def take_stable_end(self, path):
        """Reads the size and finds the last newline below it while no writer holds the lock."""
        deadline = time.monotonic() + LOCK_SECONDS
        while True:
            try:
                fcntl.flock(self.file, fcntl.LOCK_SH | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise Refused(f"{path} is locked by a writer", 3) from None
                time.sleep(0.001)
        try:
            found = os.fstat(self.file)
            whole = self.newline_before(found.st_size)
        finally:
            fcntl.flock(self.file, fcntl.LOCK_UN)
        self.end, self.torn = self.base + whole, found.st_size - whole
        self.closed = found.st_mode & 0o200 == 0

    def newline_before(self, size):
        """Returns the offset after the last newline below `size`."""
        at = size
        while at > 0:
            start = max(0, at - CHUNK)
            newline = os.pread(self.file, at - start, start).rfind(b"\n")
            if newline >= 0:
                return start + newline + 1
            at = start
        return 0

    def lines(self, start=None):
        """Yields the lines from a position on, without their newlines; None for a line over the limit."""
        if self.file is None:
            return
        at, parts, size = (self.base if start is None else start), [], 0
        while at < self.end:
            chunk = os.pread(self.file, min(CHUNK, self.end - at), at - self.base)
            if not chunk:
                raise Refused("the log was cut while it was read", 4)
            at += len(chunk)
            *ends, rest = chunk.split(b"\n")
            for end in ends:
                yield b"".join([*parts, end]) if size + len(end) <= LINE_BYTES_MAX else None
                parts, size = [], 0
            size += len(rest)
            # Bytes over the limit are counted and not kept, so memory is bounded by the longest valid line.
            parts = [*parts, rest] if size <= LINE_BYTES_MAX else []

    def start_of_last(self, count):
        """Returns the position of the last `count` lines."""
        if count == 0 or self.file is None:
            return self.end
        at = self.end - self.base - 1
        while at > 0:
            start = max(0, at - CHUNK)
            chunk = os.pread(self.file, at - start, start)
            newline = len(chunk)
            while (newline := chunk.rfind(b"\n", 0, newline)) >= 0:
                count -= 1
                if count == 0:
                    return self.base + start + newline + 1
            at = start
        return self.base


# Strings come first, so that brackets inside them do not count.
BRACKETS = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|[\[{]|[\]}]')


def is_event(line):
    """Returns True if a line is one JSON object by the rules of a log."""
    if line is None:
        return False
    try:
        text = line.decode("utf-8")
        # Python accepts NaN and Infinity; JSON does not. Numbers stay text, because they may be long.
        value = json.loads(text, parse_constant=refuse, parse_int=str, parse_float=str)
    except (ValueError, RecursionError):
        return False
    return isinstance(value, dict) and not text.startswith("\ufeff") and depth(text) <= JSON_DEPTH_MAX


def is_readable(line):
    """Returns True if a line passes the check of a reader that does not parse: UTF-8, no NUL, braces around it."""
    if line is None or b"\0" in line:
        return False
    try:
        line.decode("utf-8")
    except ValueError:
        return False
    text = line.strip(b" \t\r\f")
    return len(text) >= 2 and text.startswith(b"{") and text.endswith(b"}")


def refuse(word):
    raise ValueError(word)


def depth(text):
    deepest = now = 0
    for found in BRACKETS.finditer(text):
        if found[0] in "[{":
            now += 1
            deepest = max(deepest, now)
        elif found[0] in "]}":
            now -= 1
    return deepest


def count(log):
    events = damaged = 0
    for line in log.lines():
        if is_event(line):
            events += 1
        else:
            damaged += 1
    return events, damaged


def warn(log, name):
    if log.torn:
        print(f"{name}: torn tail: {log.torn} bytes after position {log.end}", file=sys.stderr)
    if log.closed:
        print(f"{name}: closed to appends: a disk call failed", file=sys.stderr)


def list_sessions(state, rows, as_json):
    found = []
    for row in rows:
        log = Log(state, row)
        events, damaged = count(log)
        found.append({
            "id": row["id"],
            "user_id": row["user_id"],
            "name": row["name"],
            "events": events,
            "bytes": log.end - log.base,
            "damaged": damaged,
            "torn_bytes": log.torn,
            "cursor": f"{row['log_epoch']}:{log.end}",
            "behind": log.end - (row["folded_to"] or log.base),
        })
        warn(log, row["name"] or row["id"])
    if as_json:
        print(json.dumps({"sessions": found}))
        return
    print(f"{'SESSION':<38}{'EVENTS':>10}{'BYTES':>14}  NAME")
    for session in found:
        print(f"{session['id']:<38}{session['events']:>10}{session['bytes']:>14}  {session['name'] or ''}")


def print_last(state, rows, wanted, last):
    row = next((row for row in rows if row["id"] == wanted), None) or next(
        (row for row in rows if row["name"] == wanted and row["user_id"] is None), None
    )
    if row is None:
        raise Refused(f"there is no session {wanted!r}", 1)
    log = Log(state, row)
    for line in log.lines(log.start_of_last(last)):
        if is_readable(line):
            sys.stdout.buffer.write(line + b"\n")
        else:
            print(f"{wanted}: a damaged line was skipped", file=sys.stderr)
    warn(log, wanted)


def main():
    parser = argparse.ArgumentParser(description="Reads a Duolog home without Duolog.")
    parser.add_argument("home", type=Path)
    parser.add_argument("session", nargs="?")
    parser.add_argument("--last", type=int, default=10, metavar="N")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    state = given.home / "state"
    try:
        database = open_state(state)
        rows = sessions(state, database)
        # A long read keeps the write-ahead log from being reused, and the rows are in memory.
        database.close()
        if given.session is None:
            list_sessions(state, rows, given.json)
        else:
            print_last(state, rows, given.session, max(0, given.last))
    except Refused as error:
        print(f"read_home.py: {error}", file=sys.stderr)
        return error.code
    except sqlite3.Error as error:
        print(f"read_home.py: cannot read state.db: {error}", file=sys.stderr)
        return 4
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except BrokenPipeError:
        # The reader of stdout closed the pipe.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
