//! Tables that others wrote to, missing rights and tables, and servers that go away.
