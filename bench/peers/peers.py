"""Appends the same items with Duolog and with its peers, one synced commit each, in turns, and prints a table.

Started by run.sh: peers.py DUOLOG ROOM ITEMS ROUNDS. Times are for one item, the median of the rounds. Each round
starts from nothing. The sync of each peer is asked from its own connection, not taken for granted.
"""

import asyncio
import importlib.metadata
import json
import os
import sqlite3
import statistics
import subprocess
import sys
import time
from pathlib import Path

from agents import SQLiteSession
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.sqlite import SqliteSaver

DUOLOG, ROOM, COUNT, ROUNDS = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
SIZES = [200, 350, 600, 1100, 240, 420, 8192, 900, 280, 1600, 500, 3200, 320, 750, 2200, 5000]
ITEMS = [{"role": "user", "content": "x" * SIZES[number % len(SIZES)]} for number in range(COUNT)]
SYNCED = {2: "FULL", 3: "EXTRA"}


def check_synced(connection, whose):
    """Refuses to compare with what does not sync."""
    level = connection.execute("PRAGMA synchronous").fetchone()[0]
    if level not in SYNCED:
        sys.exit(f"bench-peers: {whose} does not sync its commits (synchronous={level}); there is nothing to compare")


def bare(room):
    """write(2) and fdatasync(2): the limit."""
    file = os.open(room / "bare.jsonl", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    lines = [json.dumps(item).encode() + b"\n" for item in ITEMS]
    start = time.perf_counter()
    for line in lines:
        os.write(file, line)
        os.fdatasync(file)
    elapsed = time.perf_counter() - start
    os.close(file)
    return elapsed


def duolog(room):
    """duolog log append --each --durability power: one acknowledgement a line, the start of the process included."""
    text = "".join(json.dumps(item) + "\n" for item in ITEMS).encode()
    environment = {"PATH": os.environ["PATH"], "HOME": str(room), "DUOLOG_HOME": str(room / "home")}
    command = [DUOLOG, "log", "append", "--session", "bench", "--each", "--durability", "power"]
    start = time.perf_counter()
    ended = subprocess.run(command, input=text, env=environment, stdout=subprocess.PIPE, check=True)
    elapsed = time.perf_counter() - start
    assert len(ended.stdout.splitlines()) == COUNT, "each line is acknowledged"
    return elapsed


def openai_session(room):
    """openai-agents' SQLiteSession: add_items of one item."""
    session = SQLiteSession("bench", room / "session.db")
    check_synced(session._get_connection(), "SQLiteSession")

    async def run():
        start = time.perf_counter()
        for item in ITEMS:
            await session.add_items([item])
        elapsed = time.perf_counter() - start
        assert len(await session.get_items()) == COUNT
        return elapsed

    elapsed = asyncio.run(run())
    session.close()
    return elapsed


def saver(room, state_of):
    connection = sqlite3.connect(room / "saver.db", check_same_thread=False)
    saver = SqliteSaver(connection)
    saver.setup()
    check_synced(connection, "SqliteSaver")
    config = {"configurable": {"thread_id": "bench", "checkpoint_ns": ""}}
    start = time.perf_counter()
    for number in range(COUNT):
        checkpoint = empty_checkpoint()
        checkpoint["channel_values"] = {"messages": state_of(number)}
        metadata = {"source": "loop", "step": number, "parents": {}}
        config = saver.put(config, checkpoint, metadata, {})
    elapsed = time.perf_counter() - start
    assert connection.execute("SELECT COUNT(*) FROM checkpoints").fetchone()[0] == COUNT
    connection.close()
    return elapsed


def langgraph_item(room):
    """langgraph's SqliteSaver: put of a checkpoint that holds the one new item."""
    return saver(room, lambda number: [ITEMS[number]])


def langgraph_state(room):
    """langgraph's SqliteSaver: put of a checkpoint that holds all items so far, as a graph with a message list does."""
    return saver(room, lambda number: ITEMS[: number + 1])


def size_of(room):
    return sum(path.stat().st_size for path in room.rglob("*") if path.is_file())


def main():
    sides = [bare, duolog, openai_session, langgraph_item, langgraph_state]
    times, sizes = {side: [] for side in sides}, {}
    for number in range(ROUNDS):
        for side in sides if number % 2 == 0 else reversed(sides):
            room = ROOM / f"{side.__name__}-{number}"
            room.mkdir()
            times[side].append(side(room) / COUNT)
            sizes[side] = size_of(room)
    versions = [f"{name} {importlib.metadata.version(name)}" for name in ("openai-agents", "langgraph-checkpoint-sqlite")]
    print(f"{COUNT} items of 200 B to 8 KiB, each synced before the next, {ROUNDS} rounds in turns; {', '.join(versions)}")
    print(f"{'':18}{'per item':>10}{'of bare':>10}{'on disk':>12}")
    for side in sides:
        ratio = statistics.median(mine / limit for mine, limit in zip(times[side], times[bare]))
        middle, size = statistics.median(times[side]) * 1e3, sizes[side] / 2**20
        print(f"{side.__name__:18}{middle:>7.2f} ms{ratio:>9.2f}×{size:>8.1f} MiB  {side.__doc__.splitlines()[0]}")


main()
