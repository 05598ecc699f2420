"""Compares conversations stored by Duolog and by its peers.

All sides are called inside a running process with the store open: Duolog from Rust, because it has no Python package, its
peers from Python. All start with the same objects, and serialise or parse them while the clock runs. All sync every commit
(SQLite's synchronous=FULL in WAL mode), which is set and then read from each connection, except in "fork unsynced".
"""

import asyncio
import json
import subprocess
import sys
import time
import uuid

import sqlalchemy
from agents import SQLiteSession
from lionagi.state.db import StateDB

from benchmarks import Benchmark, items_of, take_turns

FULL, NORMAL = 2, 1
SESSIONS, BATCH, BATCHED, MANY, LOADS, FORKS = 16, 100, 2_000, 10_000, 5, 5


class Clock:
    """Measures the seconds per operation."""

    def __init__(self, operations):
        self.operations = operations

    def __enter__(self):
        self.start = time.perf_counter()
        return self

    def __exit__(self, *_):
        self.seconds = (time.perf_counter() - self.start) / self.operations


def check(level, wanted, whose):
    if level != wanted:
        sys.exit(f"bench-peers: {whose} has synchronous={level}, expected {wanted}; no comparison is possible")


class Sessions:
    """openai-agents' SQLiteSession, up to sixteen in one file."""

    def __init__(self, directory, level):
        self.directory, self.level, self.sessions = directory, level, {}

    async def open(self, name):
        session = SQLiteSession(name, self.directory / "sessions.db")

        def level():
            with session._locked_connection() as connection:
                return connection.execute("PRAGMA synchronous").fetchone()[0]

        check(await asyncio.to_thread(level), self.level, "SQLiteSession")
        self.sessions[name] = session

    async def add(self, name, items):
        await self.sessions[name].add_items(items)

    async def load(self, name):
        return len(await self.sessions[name].get_items())

    async def close(self):
        for session in self.sessions.values():
            session.close()


class State:
    """lionagi's StateDB: messages, added to the progressions of a branch and of its session in one transaction."""

    def __init__(self, directory, level):
        self.db, self.level, self.places = StateDB(directory / "state.db"), level, {}

    async def open(self, name):
        if not self.places:
            await self.db.open()
            engine = self.db._engine.sync_engine
            pragma = lambda connection, _: connection.execute(f"PRAGMA synchronous = {self.level}")
            sqlalchemy.event.listen(engine, "connect", pragma)
            await self.db._engine.dispose()
            async with self.db._tx() as connection:
                row = (await connection.execute(sqlalchemy.text("PRAGMA synchronous"))).first()
            check(row[0], self.level, "StateDB")
        session, branch, own, pool = (str(uuid.uuid4()) for _ in range(4))
        await self.db.create_progression(pool)
        await self.db.create_progression(own)
        await self.db.create_session({"id": session, "name": name, "progression_id": pool})
        await self.db.create_branch({"id": branch, "session_id": session, "progression_id": own})
        self.places[name] = (session, branch, own, pool)

    async def add(self, name, items):
        session, _, own, pool = self.places[name]
        messages = [
            {"id": str(uuid.uuid4()), "created_at": time.time(), "content": item, "role": item["role"]} for item in items
        ]
        await self.db.insert_messages(messages, progression_ids=[own, pool], session_id=session)

    async def load(self, name):
        return len(await self.db.get_branch_messages(self.places[name][1]))

    async def fork(self, name):
        """Creates the smallest possible fork: a branch whose progression repeats the ids. Messages are shared."""
        session, _, own, _ = self.places[name]
        branch, copy = str(uuid.uuid4()), str(uuid.uuid4())
        await self.db.create_progression(copy, await self.db.get_progression(own))
        await self.db.create_branch({"id": branch, "session_id": session, "progression_id": copy})

    async def close(self):
        await self.db.close()


def chunks(items, size):
    return [items[at : at + size] for at in range(0, len(items), size)]


async def one(side, items):
    await side.open("bench")
    with Clock(len(items)) as clock:
        for item in items:
            await side.add("bench", [item])
    return clock


async def batches(side, items):
    await side.open("bench")
    with Clock(len(items)) as clock:
        for some in chunks(items, BATCH):
            await side.add("bench", some)
    return clock


async def sixteen(side, items):
    shares = chunks(items, len(items) // SESSIONS)[:SESSIONS]
    for number in range(SESSIONS):
        await side.open(f"s-{number}")

    async def work(number, share):
        for item in share:
            await side.add(f"s-{number}", [item])

    with Clock(sum(map(len, shares))) as clock:
        await asyncio.gather(*(work(number, share) for number, share in enumerate(shares)))
    return clock


async def filled(side, items):
    await side.open("bench")
    for some in chunks(items, BATCH):
        await side.add("bench", some)


async def load(side, items):
    await filled(side, items)
    await side.load("bench")
    with Clock(LOADS) as clock:
        for _ in range(LOADS):
            assert await side.load("bench") == len(items)
    return clock


async def fork(side, items):
    await filled(side, items)
    await side.fork("bench")
    with Clock(FORKS) as clock:
        for _ in range(FORKS):
            await side.fork("bench")
    return clock


# Name, description, function for the peers, number of items (None: the argument), sync level, and the peers with the required
# ratio.
CASES = [
    ("one", "an item, synced", one, None, FULL, {Sessions: 1, State: 1}),
    ("sixteen", "an item of 16 sessions at once, synced", sixteen, None, FULL, {Sessions: 8, State: 8}),
    ("batches", "an item in synced batches of 100", batches, BATCHED, FULL, {Sessions: 1.2, State: 1.2}),
    ("load", "10,000 items loaded and parsed", load, MANY, FULL, {Sessions: 2, State: 2}),
    ("fork", "a fork after item 10,000, synced", fork, MANY, FULL, {State: 15}),
    ("fork unsynced", "a fork after item 10,000, not synced", fork, MANY, NORMAL, {State: 100}),
]
NAMES = {Sessions: "SQLiteSession", State: "StateDB"}


def ours(bench, directory, case, items):
    path = directory / "items.jsonl"
    path.write_text("".join(json.dumps(item) + "\n" for item in items))
    ended = subprocess.run([bench, "--beside-peers", case, directory, path], stdout=subprocess.PIPE, check=True)
    return json.loads(ended.stdout)["seconds"]


def theirs(directory, kind, work, items, level):
    async def run():
        side = kind(directory, level)
        try:
            clock = await work(side, items)
        finally:
            await side.close()
        return clock.seconds

    return asyncio.run(run())


def benchmarks(bench, directory, count):
    """Yields one benchmark per case and peer."""
    for case, what, work, fixed, level, peers in CASES:
        items = items_of(fixed or count)
        for kind, target in peers.items():
            runs = take_turns(
                directory,
                lambda where: ours(bench, where, case, items),
                lambda where: theirs(where, kind, work, items, level),
            )
            yield Benchmark(f"{case}/{NAMES[kind]}", f"{what} / {NAMES[kind]}", target, runs)
