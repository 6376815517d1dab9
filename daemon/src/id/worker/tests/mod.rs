//! The lease as its users drive it.
