//! Where the snowflake worker id comes from. So far: a fixed number from the configuration.

pub mod fixed;
