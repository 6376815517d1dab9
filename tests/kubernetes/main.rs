//! The container image, the Kubernetes manifests, the Helm chart and the Kustomize base: built, rendered, checked
//! against Kubernetes' schemas, and the pods run for real by podman, in an isolated part of the machine that disappears
//! with the tests.
#![allow(clippy::unwrap_used, reason = "in a test an unwrap is an assertion")]

mod chart;
mod database;
mod engine;
mod image;
mod manifests;
mod pods;
