//! A tag's numbers: held ahead, or of a strict tag claimed anew for whoever waits.

use std::ops::Range;

use crate::dispatch::outbox::ReplyTo;
use crate::id::BootMs;
use crate::id::segment::{Allocator, MarkMove, Provision, Want};
use crate::id::strict::StrictQueue;
use crate::store::TagTerms;

/// Where a tag's numbers come from. Every tag begins as one whose numbers are held; that it is strict is learnt
/// with its terms or its first claim.
pub enum Supply {
    /// Claimed and marked ahead of need.
    Held(Allocator<ReplyTo>),
    /// Claimed for those who wait, the rest dropped.
    Strict(StrictQueue<ReplyTo>),
}
