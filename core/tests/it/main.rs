//! The core by itself: time and chance are arguments, so every test is exact and quick.
#![allow(clippy::unwrap_used, reason = "in a test an unwrap is an assertion")]
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::disallowed_macros,
    reason = "the core is pure, its tests need not be"
)]

mod health;
mod lives;
mod mask;
mod purity;
mod reserve;
mod segment;
mod series;
mod shards;
mod shares;
mod snowflake;
mod store;
mod strict;
mod strict_hold;

#[path = "../../../tests/seed.rs"]
mod seed;
