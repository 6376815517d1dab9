//! How many runs a simulator makes, and whether they notice a broken promise.

use std::fmt::{Debug, Display};

/// Runs, unless the environment says otherwise.
pub fn count(default: usize) -> usize {
    let runs = std::env::var("LEAFD_SIM_RUNS");
    runs.map_or(default, |runs| runs.parse().expect("LEAFD_SIM_RUNS is a number"))
}

/// Whether nine of ten default runs of the simulator notice a break. `run` makes the run of a seed, and returns the
/// violation that ended it, if any, and the number of its steps.
pub fn is_noticed<V: Display>(
    broken: impl Debug,
    default: usize,
    run: impl Fn(u64) -> (Option<V>, u64),
) -> bool {
    let tries = count(default).div_ceil(default);
    let (mut steps, mut noticed, mut first) = (0, 0, None);
    for number in 0..tries {
        let violation = (number * default..(number + 1) * default).find_map(|seed| {
            let (violation, made) = run(seed as u64);
            steps += made;
            violation
        });
        noticed += usize::from(violation.is_some());
        first = first.or(violation);
    }
    let after = steps.checked_div(noticed as u64).unwrap_or(steps);
    let first = first.map_or_else(String::new, |first| first.to_string());
    let words: String = first.chars().take(160).collect();
    println!("{broken:?}: noticed in {noticed} of {tries} runs, after {after} steps: {words}");
    10 * noticed >= 9 * tries
}
