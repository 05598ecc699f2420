"""Compares Duolog with its peers and writes a report.

Started by run.sh: peers.py DUOLOG BENCH DIRECTORY ITEMS REPORT.
"""

import datetime
import importlib.metadata
import os
import sys
from pathlib import Path

import appends
import conversations
from benchmarks import write


def main():
    duolog, bench, directory, count, report = sys.argv[1], sys.argv[2], Path(sys.argv[3]), int(sys.argv[4]), Path(sys.argv[5])
    benchmarks = [*appends.benchmarks(duolog, directory, count), *conversations.benchmarks(bench, directory, count)]
    packages = ("openai-agents", "langgraph-checkpoint-sqlite", "lionagi")
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in packages)
    write(report, f"{datetime.date.today()}, {os.cpu_count()} cores, {versions}", benchmarks)


main()
