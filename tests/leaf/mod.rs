//! A Java Leaf as a neighbour: its queries to the database and its calls to ZooKeeper, statement by statement and call
//! by call, so that tests show whether leafd ever gets in its way.

mod segments;
mod snowflake;

pub use segments::{Isolation, Leaf, TABLE};
pub use snowflake::SnowflakeLeaf;
