//! leafd's integration tests, one binary with a module for each subject.

mod core_segment;
mod core_snowflake;
mod seed;
