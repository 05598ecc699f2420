"""Compares appends of items to a log by Duolog and by its peers, one synced commit each.

Every side starts with the same objects and serialises them while the clock runs. The sync level of each peer is read from
its own connection.
"""

import asyncio
import json
import os
import sqlite3
import subprocess
import sys
import time

from agents import SQLiteSession
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.sqlite import SqliteSaver

from benchmarks import Benchmark, items_of, take_turns

SYNCED = {2: "FULL", 3: "EXTRA"}


def check_synced(connection, whose):
    """Exits with an error if a peer does not sync its commits."""
    level = connection.execute("PRAGMA synchronous").fetchone()[0]
    if level not in SYNCED:
        sys.exit(f"bench-peers: {whose} does not sync its commits (synchronous={level}); no comparison is possible")


def bare(directory, items):
    file = os.open(directory / "bare.jsonl", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    start = time.perf_counter()
    for item in items:
        os.write(file, json.dumps(item).encode() + b"\n")
        os.fdatasync(file)
    elapsed = time.perf_counter() - start
    os.close(file)
    return elapsed


def duolog(binary, directory, items):
    """duolog log append --each --durability power: one acknowledgement per line, including the start of the process."""
    environment = {"PATH": os.environ["PATH"], "HOME": str(directory), "DUOLOG_HOME": str(directory / "home")}
    command = [binary, "log", "append", "--session", "bench", "--each", "--durability", "power"]
    start = time.perf_counter()
    text = "".join(json.dumps(item) + "\n" for item in items).encode()
    ended = subprocess.run(command, input=text, env=environment, stdout=subprocess.PIPE, check=True)
    elapsed = time.perf_counter() - start
    assert len(ended.stdout.splitlines()) == len(items), "each line is acknowledged"
    return elapsed


def openai_session(directory, items):
    session = SQLiteSession("bench", directory / "session.db")
    check_synced(session._get_connection(), "SQLiteSession")

    async def run():
        start = time.perf_counter()
        for item in items:
            await session.add_items([item])
        elapsed = time.perf_counter() - start
        assert len(await session.get_items()) == len(items)
        return elapsed

    elapsed = asyncio.run(run())
    session.close()
    return elapsed


def saver(directory, items, state_of):
    connection = sqlite3.connect(directory / "saver.db", check_same_thread=False)
    saver = SqliteSaver(connection)
    saver.setup()
    check_synced(connection, "SqliteSaver")
    config = {"configurable": {"thread_id": "bench", "checkpoint_ns": ""}}
    start = time.perf_counter()
    for number in range(len(items)):
        checkpoint = empty_checkpoint()
        checkpoint["channel_values"] = {"messages": state_of(number)}
        metadata = {"source": "loop", "step": number, "parents": {}}
        config = saver.put(config, checkpoint, metadata, {})
    elapsed = time.perf_counter() - start
    assert connection.execute("SELECT COUNT(*) FROM checkpoints").fetchone()[0] == len(items)
    connection.close()
    return elapsed


def langgraph_item(directory, items):
    return saver(directory, items, lambda number: [items[number]])


def langgraph_state(directory, items):
    return saver(directory, items, lambda number: items[: number + 1])


PEERS = [
    ("log/bare", "a bare write and fdatasync from Python", bare, None),
    ("log/SQLiteSession", "SQLiteSession.add_items of one item", openai_session, None),
    ("log/SqliteSaver, new item", "SqliteSaver.put of a checkpoint with the one new item", langgraph_item, None),
    ("log/SqliteSaver, all items", "SqliteSaver.put of a checkpoint with all items so far", langgraph_state, None),
]


def benchmarks(binary, directory, count):
    """Yields one benchmark per peer."""
    items = items_of(count)
    for name, what, peer, target in PEERS:
        ours = lambda where: duolog(binary, where, items) / count
        theirs = lambda where: peer(where, items) / count
        what = f"duolog log append --each --durability power, per line / {what}"
        yield Benchmark(name, what, target, take_turns(directory, ours, theirs))
