"""A Django field whose values are leafd's ids. Each new object has its id before it is saved.

With a daemon that has the tag `orders`, `python django_default.py orders.db 10` creates ten orders in a new SQLite
file.
"""

import sys

import django
from django.conf import settings
from django.db import connection, models

import leafd

if __name__ == "__main__":
    settings.configure(
        DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": sys.argv[1]}},
        DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
    )
    django.setup()

# One client serves the process and, because it is fork-safe, its workers too.
ids = leafd.Client()


def new_order_id() -> int:
    """Returns the next id of the tag `orders`. It is a module-level function, so that migrations can refer to it."""
    return ids.next_id("orders")


class Order(models.Model):
    """An order."""

    id = models.BigIntegerField(primary_key=True, default=new_order_id, editable=False)
    item = models.CharField(max_length=100)

    class Meta:
        """A table without an application."""

        app_label = "example"


def main(count: int) -> None:
    """Inserts `count` orders, half of them in bulk, and prints their ids."""
    with connection.schema_editor() as editor:
        editor.create_model(Order)
    for number in range(count // 2):
        Order.objects.create(item=f"item {number}")
    Order.objects.bulk_create(Order(item=f"item {number}") for number in range(count // 2, count))
    for id in Order.objects.order_by("id").values_list("id", flat=True):
        print(id)


if __name__ == "__main__":
    main(int(sys.argv[2]))
