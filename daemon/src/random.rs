//! Generates unique values from the kernel's random numbers.

use leafd_core::store::Generation;

/// 32 hexadecimal digits: names a host, a store or a start.
pub fn token() -> String {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).expect(ALWAYS);
    format!("{:032x}", u128::from_be_bytes(bytes))
}

/// A new tag's generation, from 1 to 2^63 - 1. Unlike a counter, it stays unique when the store is rolled back.
pub fn generation() -> Generation {
    Generation((getrandom::u64().expect(ALWAYS) >> 1) | 1)
}

/// The standard library's maps rely on this too.
const ALWAYS: &str = "Linux has had random numbers for every process since 3.17";
