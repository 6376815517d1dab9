//! A neighbour: what a Java Leaf asks of the database and of ZooKeeper, statement by statement and call by call, so
//! that tests see whether leafd is ever in its way.

mod segments;
mod snowflake;

pub use segments::{Isolation, Leaf, TABLE};
pub use snowflake::SnowflakeLeaf;
