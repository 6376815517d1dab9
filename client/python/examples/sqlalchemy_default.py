"""A SQLAlchemy column whose values are leafd's ids. Each new row has its id before it is inserted.

With a daemon that has the tag `orders`, `python sqlalchemy_default.py sqlite:///orders.db 10` creates ten orders.
"""

import leafd
from sqlalchemy import BigInteger, String, create_engine, select
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

# One client serves the process and, because it is fork-safe, its workers too.
ids = leafd.Client()


def new_order_id() -> int:
    """Returns the next id of the tag `orders`."""
    return ids.next_id("orders")


class Base(DeclarativeBase):
    """The tables of this example."""


class Order(Base):
    """An order."""

    __tablename__ = "orders"

    id: Mapped[int] = mapped_column(BigInteger, primary_key=True, default=new_order_id, autoincrement=False)
    item: Mapped[str] = mapped_column(String(100))


def main(database: str, count: int) -> None:
    """Inserts `count` orders and prints their ids."""
    engine = create_engine(database)
    Base.metadata.create_all(engine)
    with Session(engine) as session:
        session.add_all(Order(item=f"item {number}") for number in range(count))
        session.commit()
        for id in session.scalars(select(Order.id).order_by(Order.id)):
            print(id)


if __name__ == "__main__":
    import sys

    main(sys.argv[1], int(sys.argv[2]))
