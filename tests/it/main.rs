//! leafd's integration tests, one binary with a module for each subject.
#![allow(clippy::unwrap_used, reason = "in a test an unwrap is an assertion")]

mod core_segment;
mod core_snowflake;
mod document;
mod host;
mod raw;
mod readme;
mod seed;
mod vectors;
