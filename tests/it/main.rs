//! leafd's integration tests, one binary with a module for each subject.
#![allow(clippy::unwrap_used, reason = "in a test an unwrap is an assertion")]

mod access;
mod activation;
mod c_library;
mod clocks;
mod completions;
mod copies;
mod crash;
mod crowds;
mod cuts;
mod demo;
mod doctor;
mod documents;
mod drawing;
mod faults;
mod forks;
mod hanging_disk;
mod hostile;
mod http;
mod idle_tags;
mod languages;
mod leaf_http;
mod life;
mod masked_tags;
mod metrics;
mod names;
mod neighbours;
mod other_languages;
mod page;
mod power_failure;
mod prometheus;
mod protocol;
mod public_ids;
mod reload;
mod restores;
mod service;
mod shown;
mod starts;
mod tidy;
mod top;
mod vectors;
mod waits;
mod whose;
mod workers;

use leafd_tests::{host, power, raw, seed, small_disk};
