"""Pre-forked workers that insert batches of rows through a framework, with ids from leafd and from a counter in turn."""

import asyncio
import contextvars
import itertools
import os
import re
import sys
import threading
import time

ROWS, TASKS, WORKERS, RUNNING = (os.environ[name] for name in ("ROWS", "TASKS", "WORKERS", "RUNNING"))
framework = sys.argv[1]
source = contextvars.ContextVar("source", default="leafd")


class Switching:
    def __init__(self, leafd):
        self.leafd, self.counter = leafd, itertools.count(1)

    def next_id(self, tag):
        return self.leafd.next_id(tag) if source.get() == "leafd" else next(self.counter)

    async def next_ids(self, tag, count):
        return await self.leafd.next_ids(tag, count) if source.get() == "leafd" else list(itertools.islice(self.counter, count))


# The page's program, up to where it inserts.
with open(f"docs/guide/frameworks/{framework}.md") as page:
    program = page.read().split("```python\n")[1].split("```")[0]
exec(re.split(r"^(?:try:|async def main)", program, flags=re.M)[0], globals())
ids = Switching(ids)  # noqa: F821


def say(line):
    """A whole line, whatever other workers write."""
    os.write(1, f"{line}\n".encode())


async def measured(insert):
    while os.path.exists(RUNNING):
        for name in "leafd", "counter":
            source.set(name)
            began = time.monotonic()
            try:
                await insert([Order(item=name) for _ in range(int(ROWS))])  # noqa: F821
                say(f"{name} {int((time.monotonic() - began) * 1e6)}")
            except Exception as error:
                say(f"failed {name}: {error!r}")


def threads():
    async def insert(rows):
        Order.objects.bulk_create(rows)  # noqa: F821

    # Django has a connection for each thread.
    for _ in range(int(TASKS)):
        threading.Thread(target=lambda: asyncio.run(measured(insert))).start()


async def tasks():
    if framework == "sqlalchemy":
        url = make_url(os.environ["DATABASE_URL"]).set(drivername="postgresql+asyncpg")  # noqa: F821
        engine = create_async_engine(url, pool_size=20, max_overflow=0, pool_timeout=300)  # noqa: F821

        async def insert(rows):
            async with AsyncSession(engine) as session:  # noqa: F821
                session.add_all(rows)
                await session.commit()

    else:
        await Tortoise.init(db_url=os.environ["DATABASE_URL"], modules={"models": ["__main__"]})  # noqa: F821

        async def insert(rows):
            for row, row.id in zip(rows, await ids.next_ids("orders", len(rows))):
                pass
            await Order.bulk_create(rows)  # noqa: F821

    await asyncio.gather(*(measured(insert) for _ in range(int(TASKS))))


if framework != "tortoise":
    ids.next_id("orders")  # so that workers inherit a connected client, and a run of ids
os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "1"
forked = 0
while os.path.exists(RUNNING):
    if forked >= int(WORKERS):
        os.wait()
    forked += 1
    if os.fork() == 0:
        threads() if framework == "django" else asyncio.run(tasks())
        break
