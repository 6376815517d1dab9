//! leafd's integration tests, one binary with a module for each subject.
#![allow(clippy::unwrap_used, reason = "in a test an unwrap is an assertion")]

mod access;
mod c_library;
mod clocks;
mod copies;
mod core_lanes;
mod core_lives;
mod core_segment;
mod core_snowflake;
mod core_strict;
mod crash;
mod crowds;
mod document;
mod drawing;
mod faults;
mod forks;
mod hostile;
mod languages;
mod life;
mod power_failure;
mod readme;
mod starts;
mod tidy;
mod vectors;
mod workers;

use leafd_tests::{host, power, raw, seed};
