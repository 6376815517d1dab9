"""Pre-forked workers that insert batches of rows through a framework, with ids from leafd, from a counter and, with
Django, from a sequence."""

import asyncio
import contextvars
import itertools
import os
import random
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


# The page's program, up to where it inserts.
with open(f"docs/guide/frameworks/{framework}.md") as page:
    program = page.read().split("```python\n")[1].split("```")[0]
exec(re.split(r"^(?:try:|async def main)", program, flags=re.M)[0], globals())
ids = Switching(ids)  # noqa: F821


def say(line):
    """A whole line, whatever other workers write."""
    os.write(1, f"{line}\n".encode())


async def measured(insert, models):
    first = "first "
    while os.path.exists(RUNNING):
        for name in random.sample(list(models), len(models)):
            source.set(name)
            began = time.monotonic()
            try:
                await insert([models[name](item=name) for _ in range(int(ROWS))])
                say(f"{first}{name} {int((time.monotonic() - began) * 1e6)}")
            except Exception as error:
                say(f"failed {name}: {error!r}")
        first = ""


def threads():
    class Numbered(models.Model):  # noqa: F821
        id = models.BigAutoField(primary_key=True)  # noqa: F821
        item = models.TextField()  # noqa: F821

        class Meta:
            app_label = "shop"
            db_table = "orders"

    async def insert(rows):
        type(rows[0]).objects.bulk_create(rows)

    sources = {"leafd": Order, "counter": Order, "own": Numbered}  # noqa: F821
    # Django has a connection for each thread.
    for _ in range(int(TASKS)):
        threading.Thread(target=lambda: asyncio.run(measured(insert, sources))).start()


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
            for row in rows:
                row.id = await ids.next_id("orders") if source.get() == "leafd" else next(ids.counter)
            await Order.bulk_create(rows)  # noqa: F821

    sources = {"leafd": Order, "counter": Order}  # noqa: F821
    await asyncio.gather(*(measured(insert, sources) for _ in range(int(TASKS))))


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
