//! The targets, one file for each.

pub(crate) mod configuration;
pub(crate) mod frames;
pub(crate) mod journal;
pub(crate) mod masks;
pub(crate) mod stores;
pub(crate) mod zookeeper;
