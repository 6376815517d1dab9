//! The program's commands other than running the daemon.
//!
//! - [`demo`]: shows everything in a temporary folder.
//! - [`doctor`]: reports problems and their remedies.
//! - [`adopt`]: accepts a different store than before.
//! - [`declare_loss`]: makes every host assume that a store may have lost commits.
//! - [`schema`]: shows or creates the tables of the stores.
//! - [`routes`]: changes the routes that several stores record.
//! - [`mask_key`]: generates a key for public ids.
//! - `service`: the settings of the service's unit, which doctor, adopt-store and declare-loss use.
//! - [`version`]: what the program was built from.

pub mod adopt;
pub mod declare_loss;
pub mod demo;
pub mod doctor;
pub mod mask_key;
pub mod routes;
pub mod schema;
mod service;
pub mod version;

use std::process::ExitCode;

use anyhow::Context as _;

use crate::config::ConfigError;
use crate::output;
use crate::run::refuse_config;

/// Prints a command's result, or why it failed, and returns the exit status, which is that of [`crate::run::start`].
pub fn finish(outcome: anyhow::Result<String>) -> ExitCode {
    match outcome {
        Ok(text) => output::print(&text),
        Err(error) => match error.downcast_ref::<ConfigError>() {
            Some(error) => refuse_config(error),
            None => {
                eprintln!("leafd: {error:#}");
                ExitCode::FAILURE
            }
        },
    }
}

/// Runs a command's asynchronous part.
fn block_on<T>(work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
    runtime.context("cannot start the asynchronous runtime")?.block_on(work)
}
