//! Random tests that can be repeated: each prints its seed when it fails, and `LEAFD_TEST_SEED=N` runs only
//! that seed.

use std::env;

/// Prints its seed if the test panics while it is alive.
pub struct Seeded {
    seed: u64,
    random: fastrand::Rng,
}

impl std::ops::Deref for Seeded {
    type Target = fastrand::Rng;
    fn deref(&self) -> &fastrand::Rng {
        &self.random
    }
}

impl std::ops::DerefMut for Seeded {
    fn deref_mut(&mut self) -> &mut fastrand::Rng {
        &mut self.random
    }
}

impl Seeded {
    /// A random number generator with this seed.
    pub fn new(seed: u64) -> Seeded {
        Seeded { seed, random: fastrand::Rng::with_seed(seed) }
    }
}

impl Drop for Seeded {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("failed with seed {0}; run it alone with LEAFD_TEST_SEED={0}", self.seed);
        }
    }
}

/// `count` new seeds, or the one that the environment names.
pub fn seeds(count: usize) -> impl Iterator<Item = Seeded> {
    let named: Option<u64> = env::var("LEAFD_TEST_SEED")
        .ok()
        .map(|seed| seed.parse().expect("LEAFD_TEST_SEED is a number"));
    let count = if named.is_some() { 1 } else { count };
    (0..count).map(move |_| Seeded::new(named.unwrap_or_else(|| fastrand::u64(..))))
}
