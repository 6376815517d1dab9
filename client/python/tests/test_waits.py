"""Tests what a process does while a call waits: signal handlers, greenlets, other threads."""

import os
import signal
import subprocess
import sys
import threading
import time
from typing import List

import leafd
import pytest
from conftest import Host, check_unique

CALLS = {
    "next_id": "client.next_id('orders', 60)",
    "next_id_direct": "client.next_id_direct('orders', 60)",
    "next_ids": "client.next_ids('orders', 5, 60)",
    "next_ids of several requests": "client.next_ids('orders', 2_500_000, 60)",
    "mask": "client.public_ids('orders').mask([17], 60)",
    "connect": "leafd.Client(wait=60).connect()",
    "layout": "leafd.Client(timeout=60).layout()",
    "behind another thread": "behind_another_thread()",
    "in a forked child": "in_child()",
}

INTERRUPTED = """
import os, sys, threading, time
import leafd

client = leafd.Client().connect()

def behind_another_thread():
    # The other thread reads and fetches.
    threading.Thread(target=client.next_id, args=("orders", 3)).start()
    time.sleep(0.2)
    client.next_id("orders", 60)

def in_child():
    pid = os.fork()
    if pid == 0:
        client.next_id("orders", 60)
    try:
        time.sleep(60)
    finally:
        os.kill(pid, 2)
        assert os.waitpid(pid, 0)[1] != 0

print("ready", flush=True)
sys.stdin.readline()
try:
    {call}
except KeyboardInterrupt:
    print("interrupted", flush=True)
sys.stdin.readline()
print(*client.next_ids("orders", 5))
"""


@pytest.mark.parametrize("call", CALLS)
def test_ctrl_c_ends_a_wait_at_once(host: Host, call: str) -> None:
    program = INTERRUPTED.replace("{call}", CALLS[call])
    pipe = subprocess.PIPE
    process = subprocess.Popen(
        [sys.executable, "-c", program], env=host.environment(), stdin=pipe, stdout=pipe, stderr=pipe, text=True
    )
    assert process.stdin is not None and process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    if call == "connect":
        host.stop()
        os.unlink(host.socket + ".lock")
    else:
        host.pause()
    process.stdin.write("\n")
    process.stdin.flush()
    time.sleep(0.5)
    begun = time.monotonic()
    process.send_signal(signal.SIGINT)
    line = process.stdout.readline()
    took = time.monotonic() - begun
    if call == "connect":
        host.start()
    host.resume()
    printed, said = process.communicate("go on\n", timeout=60)
    # The call alone would have taken a minute.
    assert line == "interrupted\n" and took < 10, (line, took, said)
    check_unique(map(int, printed.split()), 5)


def test_handlers_run_during_a_call_and_may_draw_themselves(host: Host) -> None:
    client = host.client(timeout=20.0)
    ids: List[int] = []
    seen: List[float] = []

    def handler(*_: object) -> None:
        seen.append(time.monotonic())
        if len(seen) == 3:
            host.resume()
        if len(seen) > 3:
            ids.extend([client.next_id("orders"), client.next_id_direct("orders")])

    old = signal.signal(signal.SIGALRM, handler)
    try:
        client.connect()
        host.pause()
        signal.setitimer(signal.ITIMER_REAL, 0.1, 0.1)
        ids.append(client.next_id("orders"))
        ended = time.monotonic()
        while len(seen) < 10:
            ids.append(client.next_id_direct("orders"))
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old)
        host.resume()
    # A handler resumed the daemon.
    assert seen[2] <= ended
    check_unique(ids)


def test_a_handler_s_exception_ends_the_call(host: Host) -> None:
    class Enough(Exception):
        pass

    def handler(*_: object) -> None:
        raise Enough

    client = host.client(timeout=60.0).connect()
    old = signal.signal(signal.SIGALRM, handler)
    host.pause()
    try:
        for call in (client.next_id, client.next_id_direct):
            signal.setitimer(signal.ITIMER_REAL, 0.2)
            with pytest.raises(Enough):
                call("orders")
    finally:
        signal.signal(signal.SIGALRM, old)
        host.resume()
    check_unique(client.next_ids("orders", 5), 5)


DAEMON_THREADS = """
import sys, threading, time
import leafd

client = leafd.Client(timeout=60).connect()
print("ready", flush=True)
sys.stdin.readline()
for _ in range(3):
    threading.Thread(target=client.next_id_direct, args=("orders",), daemon=True).start()
time.sleep(0.3)
"""


def test_daemon_threads_that_wait_let_the_program_end(host: Host) -> None:
    pipe = subprocess.PIPE
    process = subprocess.Popen(
        [sys.executable, "-c", DAEMON_THREADS], env=host.environment(), stdin=pipe, stdout=pipe, stderr=pipe, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    host.pause()
    _, said = process.communicate("\n", timeout=30)
    host.resume()
    assert process.returncode == 0, said


GREENLETS = """
from gevent import monkey
monkey.patch_all()
import gevent, time
import leafd

client = leafd.Client(timeout=30)
ids = [client.next_id("orders")]
turns = 0
done = False

def tick():
    global turns
    while not done:
        gevent.sleep(0.01)
        turns += 1

ticker = gevent.spawn(tick)
ids += [id for job in gevent.joinall([gevent.spawn(client.next_id, "orders") for _ in range(50)]) for id in [job.get()]]
print("waiting", flush=True)
input()
begun = turns

def time_out():
    try:
        client.next_ids("orders", 5, 0.5)
    except leafd.TimeoutError as error:
        return error

waiting = [gevent.spawn(time_out) for _ in range(3)]
gevent.joinall(waiting)
assert all(job.value is not None for job in waiting), waiting
assert turns - begun > 10, turns - begun
print("waited", flush=True)
input()
ids += client.next_ids("orders", 5)
try:
    client.next_id("nosuch")
except leafd.UnknownTagError:
    done = True
ticker.join()
print(*ids)
"""


def test_greenlets_that_wait_stall_nobody(host: Host) -> None:
    pipe = subprocess.PIPE
    process = subprocess.Popen(
        [sys.executable, "-c", GREENLETS], env=host.environment(), stdin=pipe, stdout=pipe, stderr=pipe, text=True
    )
    assert process.stdin is not None and process.stdout is not None
    for word, then in (("waiting\n", host.pause), ("waited\n", host.resume)):
        assert process.stdout.readline() == word, process.communicate("\n\n")
        then()
        process.stdin.write("\n")
        process.stdin.flush()
    printed, said = process.communicate(timeout=60)
    assert process.returncode == 0, said
    assert "Traceback" not in said, "caught exceptions are not printed"
    check_unique(map(int, printed.split()), 56)


def test_the_interpreters_lock_is_let_go_of_in_the_main_thread(host: Host) -> None:
    client = host.client().connect()
    turns = 0
    stop = threading.Event()

    def work() -> None:
        nonlocal turns
        while not stop.is_set():
            turns += 1

    worker = threading.Thread(target=work)
    host.pause()
    worker.start()
    before = turns
    for call in (client.next_id, client.next_id_direct):
        with pytest.raises(leafd.TimeoutError):
            call("orders", timeout=0.3)
    during = turns - before
    stop.set()
    worker.join()
    host.resume()
    assert during > 10_000
