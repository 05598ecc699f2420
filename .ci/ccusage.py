"""Compares `duolog usage daily --json` with the report of ccusage on the same files, per day."""

import json
import sys

KINDS = ["input", "output", "cache read", "cache write"]


def ours(path):
    days = {}
    for day in json.load(open(path))["days"]:
        if day["unpriced_models"]:
            sys.exit(f"usage: {day['day']} has models without a known price: {', '.join(day['unpriced_models'])}")
        written = day["cache_creation_5m_input_tokens"] + day["cache_creation_1h_input_tokens"]
        tokens = [day["input_tokens"], day["output_tokens"], day["cache_read_input_tokens"], written]
        days[day["day"]] = (tokens, day["cost_usd"])
    return days


def theirs(paths):
    days = {}
    for path in paths:
        for day in json.load(open(path))["daily"]:
            names = ["inputTokens", "outputTokens", "cacheReadTokens", "cacheCreationTokens"]
            tokens, cost = days.get(day["date"], ([0] * len(names), 0.0))
            tokens = [before + day[name] for before, name in zip(tokens, names)]
            days[day["date"]] = (tokens, cost + day.get("totalCost", day.get("costUSD", 0.0)))
    return days


def main():
    ours_by_day, theirs_by_day = ours(sys.argv[1]), theirs(sys.argv[2:])
    nothing = ([0] * len(KINDS), 0.0)
    differing = 0
    for day in sorted(ours_by_day.keys() | theirs_by_day.keys()):
        (mine, my_cost), (other, other_cost) = ours_by_day.get(day, nothing), theirs_by_day.get(day, nothing)
        differences = [f"{kind} {a} and {b}" for kind, a, b in zip(KINDS, mine, other) if a != b]
        if round(my_cost * 100) != round(other_cost * 100):
            differences.append(f"${my_cost:.4f} and ${other_cost:.4f}")
        if differences:
            differing += 1
            print(f"DIFF {day}: {'; '.join(differences)}")
    total = sum(cost for _, cost in ours_by_day.values())
    print(f"usage: {len(ours_by_day)} days, ${total:.2f} in total; {differing} differ from ccusage")
    if differing or not ours_by_day:
        sys.exit(1)


main()
