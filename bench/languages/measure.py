"""Prints what an id costs in Python, from a held run and drawn directly, in nanoseconds."""

import os
import time
from typing import Callable

import leafd


def cost(draw: Callable[[str], int]) -> float:
    for _ in range(1000):
        draw("bench")
    drawn, began = 0, time.perf_counter_ns()
    while (took := time.perf_counter_ns() - began) < int(os.environ["MS"]) * 1_000_000:
        for _ in range(100):
            draw("bench")
        drawn += 100
    return took / drawn


with leafd.Client() as client:
    print(cost(client.next_id), cost(client.next_id_direct))
