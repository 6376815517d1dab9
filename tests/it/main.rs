//! leafd's integration tests, one binary with a module for each subject.
#![allow(clippy::unwrap_used, reason = "in a test an unwrap is an assertion")]

mod access;
mod c_library;
mod clocks;
mod copies;
mod core_segment;
mod core_snowflake;
mod crash;
mod crowds;
mod document;
mod drawing;
mod faults;
mod forks;
mod host;
mod hostile;
mod life;
#[path = "../power/mod.rs"]
mod power;
mod power_failure;
mod raw;
mod readme;
mod seed;
mod starts;
mod tidy;
mod vectors;
