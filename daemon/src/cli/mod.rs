//! The program's commands other than running the daemon.
//!
//! - [`demo`]: shows everything in a temporary folder.
//! - [`doctor`]: says what is wrong, and what to do about it.
//! - [`adopt`]: accepts a store other than the one before.
//! - [`declare_loss`]: tells every host that a store may have lost commits.
//! - [`schema`]: shows or creates the tables of the stores.
//! - [`routes`]: changes the routes that several stores record.
//! - [`mask_key`]: makes a key for public ids.
//! - `service`: the settings of the service's unit, which doctor, adopt-store and declare-loss use.
//! - [`man`]: the manual page of the settings.
//! - [`version`]: what the program was built from.

pub mod adopt;
pub mod declare_loss;
pub mod demo;
pub mod doctor;
pub mod man;
pub mod mask_key;
pub mod routes;
pub mod schema;
mod service;
pub mod version;
