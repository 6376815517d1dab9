//! Generates unique values from the kernel's random numbers.

use leafd_core::store::{Generation, StoreError};

/// The kernel returned no random number.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("the kernel gives no random number: {0}; try again")]
pub struct NoRandomness(getrandom::Error);

impl From<NoRandomness> for StoreError {
    fn from(error: NoRandomness) -> Self {
        StoreError::Refused(error.to_string().into())
    }
}

/// 32 hexadecimal digits: names a host, a store or a start.
///
/// # Errors
/// [`NoRandomness`].
pub fn token() -> Result<String, NoRandomness> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(NoRandomness)?;
    Ok(format!("{:032x}", u128::from_be_bytes(bytes)))
}

/// A number from 1 to 2^64 - 1.
///
/// # Errors
/// [`NoRandomness`].
pub fn number() -> Result<u64, NoRandomness> {
    Ok(getrandom::u64().map_err(NoRandomness)?.max(1))
}

/// A new tag's generation, from 1 to 2^63 - 1. Unlike a counter, it stays unique when the store is rolled back.
///
/// # Errors
/// [`NoRandomness`].
pub fn generation() -> Result<Generation, NoRandomness> {
    Ok(Generation((getrandom::u64().map_err(NoRandomness)? >> 1) | 1))
}
