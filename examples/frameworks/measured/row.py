"""Prints a framework's row of the table that `measure` prints."""

import collections
import math
import re
import sys

name, seconds, counted, *saids = sys.argv[1:]
times = collections.defaultdict(lambda: collections.defaultdict(list))  # of batches in ms, by source and phase
failed = []
for said in saids:
    phase = "start"
    with open(said, errors="replace") as lines:
        for line in lines:
            if marked := re.match("mark (\\w+)", line):
                phase = marked[1]
            elif (timed := re.fullmatch(r"(leafd|counter|own) (\d+)\n", line)) and phase != "start":
                times[timed[1]][phase].append(int(timed[2]) / 1000)
            elif line.startswith("failed leafd"):
                failed.append(line)


def quantile(batches, part):
    return sorted(batches)[int(len(batches) * part)] if batches else math.nan


def slowest(batches):
    return quantile(batches, 0.999)


def both(source):
    return times[source]["quiet"] + times[source]["killed"]


def ratio(of):
    return f"{of('leafd') / of('counter'):.2f}"


rows = {}
with open(counted) as lines:
    for line in lines:
        source, count, repeated = line.strip().split("|")
        rows[source] = f"{int(count):,}", f"{int(repeated):,}"
halves = [slowest(both("counter")[half::2]) for half in (0, 1)]
own = ""
if "own" in rows:
    own = "{} rows, {} repeated ids".format(*rows["own"]) + f", p99.9 {slowest(both('own')):,.0f} ms"
columns = [
    name,
    *rows["leafd"],
    len(failed),
    ratio(lambda source: quantile(both(source), 0.5)),
    f"{slowest(both('leafd')):,.0f} ms",
    f"{slowest(both('counter')):,.0f} ms",
    ratio(lambda source: slowest(both(source))),
    ratio(lambda source: slowest(times[source]["quiet"])),
    ratio(lambda source: slowest(times[source]["killed"])),
    f"{max(halves) / min(halves):.2f}",
    own,
    seconds,
]
print("|", " | ".join(map(str, columns)), "|")
print(*failed[:1], end="", file=sys.stderr)
if rows["leafd"][1] != "0":
    sys.exit(f"{name}: leafd's ids came twice")
