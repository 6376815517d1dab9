//! The readings of two clocks, which the caller passes to the core.

use serde::{Deserialize, Serialize};

/// Wall-clock time: milliseconds since 1970. It may step in either direction.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct UnixMs(pub u64);

/// Boot time: milliseconds since the host started, including suspend. It never steps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BootMs(pub u64);

/// The readings of the host's clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Now {
    pub unix: UnixMs,
    pub boot: BootMs,
}
