"""Runs the page's FastAPI application under uvicorn with several workers, while the daemon is killed with kill -9.
Every id is checked."""

import asyncio
import importlib
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import List, Tuple

from conftest import Host, check_unique
from test_docs import blocks

# It is imported by name, because type checkers reject its source for the oldest Python.
httpx = importlib.import_module("httpx")

WORKERS = 2
CALLERS = 20
ORDERS_EACH = 50


def test_the_page_s_application_over_a_crash_of_the_daemon(host: Host, tmp_path: Path) -> None:
    # The response shows which worker answered.
    [page] = blocks("docs/fastapi.md")
    (tmp_path / "application.py").write_text(f"import os\n{page}".replace('"item": item}', '"by": os.getpid()}'))
    address = f"{host.folder}/http"
    command = [sys.executable, "-m", "uvicorn", "--workers", str(WORKERS), "--uds", address, "--no-access-log"]
    command.append("application:app")
    said = tmp_path / "said"
    with open(said, "wb") as log:
        server = subprocess.Popen(command, cwd=tmp_path, env=host.environment(), stdout=log, stderr=log)
    try:
        end = time.monotonic() + 60
        while said.read_text().count("Application startup complete") < WORKERS:
            assert server.poll() is None and time.monotonic() < end, said.read_text()
            time.sleep(0.05)
        answers = asyncio.run(_orders(address, host))
    finally:
        server.terminate()
        server.communicate(timeout=30)
    assert len({by for _, by in answers}) == WORKERS
    check_unique([id for id, _ in answers], CALLERS * ORDERS_EACH)


async def _orders(address: str, host: Host) -> List[Tuple[int, int]]:
    """Returns the ids of all callers, each with the worker that answered."""
    answers: List[Tuple[int, int]] = []

    async def call() -> None:
        # Each order uses a new connection, so that all workers get some.
        transport = httpx.AsyncHTTPTransport(uds=address, limits=httpx.Limits(max_keepalive_connections=0))
        async with httpx.AsyncClient(transport=transport, base_url="http://shop", timeout=60) as http:
            for _ in range(ORDERS_EACH):
                answer = await http.post("/orders", params={"item": "tea"})
                while answer.status_code != 200:
                    assert answer.status_code == 503, answer.text
                    await asyncio.sleep(int(answer.headers["Retry-After"]))
                    answer = await http.post("/orders", params={"item": "tea"})
                answers.append((int(answer.json()["id"]), answer.json()["by"]))

    async def crash() -> None:
        for share in (0.25, 0.5, 0.75):
            while len(answers) < share * CALLERS * ORDERS_EACH:
                await asyncio.sleep(0.005)
            await asyncio.to_thread(host.stop, signal.SIGKILL)
            await asyncio.to_thread(host.start)

    await asyncio.gather(crash(), *(call() for _ in range(CALLERS)))
    return answers
