//! The numbered outcomes of a request.
//!
//! A number is assigned once and never reused. A client treats a status that it doesn't know (from
//! a newer daemon) like [`Status::Internal`].

use std::fmt;

macro_rules! statuses {
    ($($(#[$doc:meta])* $name:ident = $number:literal, $text:literal, $retry:literal, $closes:literal;)*) => {
        /// The outcome of a request.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        #[repr(u16)]
        pub enum Status { $($(#[$doc])* $name = $number,)* }

        impl Status {
            /// Every status, by number.
            pub const ALL: &'static [Status] = &[$(Status::$name,)*];

            /// The status with this number, if there is one.
            pub fn from_number(number: u16) -> Option<Status> {
                match number { $($number => Some(Status::$name),)* _ => None }
            }

            /// The name used in `protocol.md`.
            pub fn name(self) -> &'static str {
                match self { $(Status::$name => $text,)* }
            }

            /// Whether sending the same id request again is safe and may succeed.
            pub fn retry_may_help(self) -> bool {
                match self { $(Status::$name => $retry,)* }
            }

            /// Whether the daemon closes the connection after this reply.
            pub fn closes(self) -> bool {
                match self { $(Status::$name => $closes,)* }
            }
        }
    };
}

statuses! {
    /// The body contains the result.
    Ok = 0, "OK", false, false;
    /// The body doesn't fit the opcode.
    Malformed = 1, "MALFORMED", false, false;
    /// The daemon doesn't know the opcode.
    UnknownOpcode = 2, "UNKNOWN_OPCODE", false, false;
    /// The client and the daemon have no protocol version in common.
    Version = 3, "VERSION", false, true;
    /// A length field is out of range.
    FrameLength = 4, "FRAME_LENGTH", false, true;
    /// The tag's name is invalid.
    TagInvalid = 5, "TAG_INVALID", false, false;
    /// The store has no such tag.
    TagUnknown = 6, "TAG_UNKNOWN", false, false;
    /// The count is zero or above the limit.
    CountInvalid = 7, "COUNT_INVALID", false, false;
    /// The peer is not allowed to do this.
    Denied = 8, "DENIED", false, false;
    /// A queue is full.
    Overloaded = 9, "OVERLOADED", true, false;
    /// The deadline passed; the text says what the request waited for.
    Deadline = 10, "DEADLINE", true, false;
    /// The store is unavailable.
    StoreUnavailable = 11, "STORE_UNAVAILABLE", true, false;
    /// The clock is further behind the last id than `max_drift` allows.
    ClockBehind = 12, "CLOCK_BEHIND", true, false;
    /// The daemon holds no worker number; the text says why, and whether it will get one.
    NoWorker = 13, "NO_WORKER", true, false;
    /// All ids up to the tag's ceiling are used.
    TagExhausted = 14, "TAG_EXHAUSTED", false, false;
    /// The layout's time bits are exhausted, or the clock is before its epoch.
    TimeExhausted = 15, "TIME_EXHAUSTED", false, false;
    /// The daemon can't write to its state directory; it issues no ids until it can.
    Journal = 16, "JOURNAL", true, false;
    /// The daemon is stopping.
    ShuttingDown = 17, "SHUTTING_DOWN", true, true;
    /// A tag with this name already exists.
    TagExists = 18, "TAG_EXISTS", false, false;
    /// A value in an administrative request is not allowed.
    ValueRefused = 19, "VALUE_REFUSED", false, false;
    /// A bug in the daemon.
    Internal = 20, "INTERNAL", false, false;
    /// The daemon has reached its connection limit.
    ConnectionLimit = 21, "CONNECTION_LIMIT", true, true;
    /// The store's data for this tag can't be used safely.
    StoreRefused = 22, "STORE_REFUSED", false, false;
    /// The daemon has no key for masking, or its key differs from the one that the store knows.
    MaskKey = 23, "MASK_KEY", false, false;
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
