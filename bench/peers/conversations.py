"""Keeps the same conversations with Duolog and with its peers, and prints a table of ratios.

Started by run.sh: conversations.py BENCH ROOM ITEMS ROUNDS. All sides are called inside a process that is up, with the
store open: Duolog from Rust, as it has no Python package, its peers from Python, as they are used. All sync every commit
(SQLite's synchronous=FULL in WAL mode), which is set and then asked of each connection, but for the fork that says not.
Times are the median of the rounds; ratios are taken within a round.
"""

import asyncio
import importlib.metadata
import json
import statistics
import subprocess
import sys
import time
import uuid
from pathlib import Path

import sqlalchemy
from agents import SQLiteSession
from lionagi.state.db import StateDB

BENCH, ROOM, COUNT, ROUNDS = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
SIZES = [200, 350, 600, 1100, 240, 420, 8192, 900, 280, 1600, 500, 3200, 320, 750, 2200, 5000]
FULL, NORMAL = 2, 1
SESSIONS, BATCH, BATCHED, MANY, LOADS, FORKS = 16, 100, 2_000, 10_000, 5, 5


def items_of(count):
    return [{"role": "user", "content": "x" * SIZES[number % len(SIZES)]} for number in range(count)]


class Clock:
    """What one of so many operations takes, by the clock and of the processor, all threads together."""

    def __init__(self, operations):
        self.operations = operations

    def __enter__(self):
        self.start, self.cpu = time.perf_counter(), time.process_time()
        return self

    def __exit__(self, *_):
        self.seconds = (time.perf_counter() - self.start) / self.operations
        self.cpu = (time.process_time() - self.cpu) / self.operations


def check(level, wanted, whose):
    if level != wanted:
        sys.exit(f"bench-peers: {whose} has synchronous={level} and not {wanted}; there is nothing to compare")


class Sessions:
    """openai-agents' SQLiteSession, sixteen at most in one file."""

    def __init__(self, room, level):
        self.room, self.level, self.sessions = room, level, {}

    async def open(self, name):
        session = SQLiteSession(name, self.room / "sessions.db")

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
    """lionagi's StateDB: messages, put on the progressions of a branch and of its session in one transaction."""

    def __init__(self, room, level):
        self.db, self.level, self.places = StateDB(room / "state.db"), level, {}

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
        """The least that a fork can be: a branch whose progression repeats the ids. Messages are shared."""
        session, _, own, _ = self.places[name]
        branch, copy = str(uuid.uuid4()), str(uuid.uuid4())
        await self.db.create_progression(copy, await self.db.get_progression(own))
        await self.db.create_branch({"id": branch, "session_id": session, "progression_id": copy})

    async def clone(self, name):
        """What lionagi's own Branch.clone comes to: every message again, under another id."""
        session, branch, _, _ = self.places[name]
        messages = await self.db.get_branch_messages(branch)
        messages = [{**message, "id": str(uuid.uuid4())} for message in messages]
        new, copy = str(uuid.uuid4()), str(uuid.uuid4())
        await self.db.create_progression(copy)
        await self.db.insert_messages(messages, progression_ids=[copy], session_id=session)
        await self.db.create_branch({"id": new, "session_id": session, "progression_id": copy})

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


async def clone(side, items):
    await filled(side, items)
    with Clock(1) as clock:
        await side.clone("bench")
    return clock


# What is measured, with how many items, how the peers do it, which peers, with which sync, and what the ratio should be.
CASES = [
    ("one", COUNT, one, [Sessions, State], FULL, 1),
    ("sixteen", COUNT, sixteen, [Sessions, State], FULL, 8),
    ("batches", BATCHED, batches, [Sessions, State], FULL, 1.5),
    ("load", MANY, load, [Sessions, State], FULL, 2),
    ("load raw", MANY, load, [Sessions, State], FULL, 5),
    ("fork", MANY, fork, [State], FULL, 15),
    ("fork unsynced", MANY, fork, [State], NORMAL, 100),
    ("fork", MANY, clone, [State], FULL, None),
]


def ours(room, case, items):
    path = room / "items.jsonl"
    path.write_text("".join(json.dumps(item) + "\n" for item in items))
    ended = subprocess.run([BENCH, "--beside-peers", case, room, path], stdout=subprocess.PIPE, check=True)
    return json.loads(ended.stdout)


def theirs(room, kind, work, items, level):
    async def run():
        side = kind(room, level)
        try:
            clock = await work(side, items)
        finally:
            await side.close()
        return {"seconds": clock.seconds, "cpu": clock.cpu}

    return asyncio.run(run())


def told(seconds):
    return f"{seconds * 1e6:.0f} µs" if seconds < 1e-3 else f"{seconds * 1e3:.2f} ms"


def main():
    versions = [f"{name} {importlib.metadata.version(name)}" for name in ("openai-agents", "lionagi")]
    print(f"\nconversations: items of 200 B to 8 KiB, {ROUNDS} rounds in turns; {', '.join(versions)}")
    print("Duolog from Rust, peers from Python; × is how many times as long theirs takes")
    print(f"{'':24}{'ours':>10}{'theirs':>10}{'×':>9}{'target':>8}{'CPU ours':>11}{'theirs':>10}{'×':>8}")
    for case, count, work, kinds, level, target in CASES:
        items = items_of(count)
        for kind in kinds:
            rounds = []
            for number in range(ROUNDS):
                sides = {}
                for who in ("ours", "theirs") if number % 2 == 0 else ("theirs", "ours"):
                    room = ROOM / f"{case.replace(' ', '-')}-{work.__name__}-{kind.__name__}-{number}-{who}"
                    room.mkdir()
                    sides[who] = ours(room, case, items) if who == "ours" else theirs(room, kind, work, items, level)
                    subprocess.run(["rm", "-rf", room], check=True)
                rounds.append(sides)
            middle = lambda of: statistics.median(map(of, rounds))
            mine, other = middle(lambda r: r["ours"]["seconds"]), middle(lambda r: r["theirs"]["seconds"])
            ratio = middle(lambda r: r["theirs"]["seconds"] / r["ours"]["seconds"])
            cpu, other_cpu = middle(lambda r: r["ours"]["cpu"]), middle(lambda r: r["theirs"]["cpu"])
            cpu_ratio = middle(lambda r: r["theirs"]["cpu"] / max(r["ours"]["cpu"], 1e-9))
            verdict = "" if target is None else f"≥ {target}" + ("" if ratio >= target else " !")
            name = f"{case if work is not clone else 'fork (clone)'}, {kind.__name__}"
            print(
                f"{name:24}{told(mine):>10}{told(other):>10}{ratio:>8.1f}×{verdict:>8}"
                f"{told(cpu):>11}{told(other_cpu):>10}{cpu_ratio:>7.1f}×",
                flush=True,
            )


main()
