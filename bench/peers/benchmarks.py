"""Benchmarks in the format that duolog-bench reads."""

import json
import shutil

RUNS = 3
SIZES = [200, 350, 600, 1100, 240, 420, 8192, 900, 280, 1600, 500, 3200, 320, 750, 2200, 5000]


def items_of(count):
    """Returns the items of every side: 200 bytes to 8 KiB each."""
    return [{"role": "user", "content": "x" * SIZES[number % len(SIZES)]} for number in range(count)]


def take_turns(directory, ours, theirs):
    """Calls both sides RUNS times, each in a new directory. The side that goes first alternates."""
    runs = []
    for number in range(RUNS):
        taken = {}
        for side in (ours, theirs) if number % 2 == 0 else (theirs, ours):
            where = directory / "work"
            where.mkdir()
            taken[side] = side(where)
            shutil.rmtree(where)
        runs.append((taken[ours], taken[theirs]))
    return runs


class Benchmark:
    """Seconds of ours and of theirs, run by run. The ratio is theirs divided by ours."""

    def __init__(self, name, what, target, runs):
        self.name, self.what, self.target, self.runs = name, what, target, runs

    def as_json(self):
        run = lambda ours, theirs: {"ours": ours * 1e9, "limit": theirs * 1e9, "ratio": theirs / ours}
        return {
            "name": self.name,
            "what": self.what,
            "table": "peers",
            "compares": "speed",
            "target": "shown" if self.target is None else {"at_least": self.target},
            "runs": [run(*pair) for pair in self.runs],
        }


def write(path, measured, benchmarks):
    """Writes the report for duolog-bench --from."""
    report = {"section": "peers", "measured": measured, "smoke": False, "benchmarks": [f.as_json() for f in benchmarks]}
    path.write_text(json.dumps(report, indent=2) + "\n")
