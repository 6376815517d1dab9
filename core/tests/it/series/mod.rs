//! Document numbers: formats, periods, and what a host knows of the store's clock.

mod boundaries;
mod formats;
mod periods;
