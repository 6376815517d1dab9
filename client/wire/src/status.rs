//! The numbered outcomes of a request.
//!
//! A number is given once and never used again for anything else. A status a client doesn't know
//! (from a newer daemon) is to be treated like [`Status::Internal`].

use std::fmt;

macro_rules! statuses {
    ($($(#[$doc:meta])* $name:ident = $number:literal, $text:literal, $retry:literal, $closes:literal;)*) => {
        /// What became of a request.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        #[repr(u16)]
        pub enum Status { $($(#[$doc])* $name = $number,)* }

        impl Status {
            /// Every status, by number.
            pub const ALL: &'static [Status] = &[$(Status::$name,)*];

            /// The status with this number, if there is one.
            #[must_use]
            pub fn from_number(number: u16) -> Option<Status> {
                match number { $($number => Some(Status::$name),)* _ => None }
            }

            /// Its name as `protocol.md` has it.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self { $(Status::$name => $text,)* }
            }

            /// Whether sending the same id request again is safe and may succeed by itself.
            #[must_use]
            pub fn retry_may_help(self) -> bool {
                match self { $(Status::$name => $retry,)* }
            }

            /// Whether the daemon closes the connection after this reply.
            #[must_use]
            pub fn closes(self) -> bool {
                match self { $(Status::$name => $closes,)* }
            }
        }
    };
}

statuses! {
    /// The body carries the answer.
    Ok = 0, "OK", false, false;
    /// The body is not what the opcode asks for.
    Malformed = 1, "MALFORMED", false, false;
    /// The daemon doesn't know the opcode.
    UnknownOpcode = 2, "UNKNOWN_OPCODE", false, false;
    /// The client and the daemon have no protocol version in common.
    Version = 3, "VERSION", false, true;
    /// A length field that no frame may have.
    FrameLength = 4, "FRAME_LENGTH", false, true;
    /// The tag's name is not one that a tag can have.
    TagInvalid = 5, "TAG_INVALID", false, false;
    /// The store has no such tag.
    TagUnknown = 6, "TAG_UNKNOWN", false, false;
    /// The count is zero or above the limit.
    CountInvalid = 7, "COUNT_INVALID", false, false;
    /// The peer may not do this.
    Denied = 8, "DENIED", false, false;
    /// A queue is full.
    Overloaded = 9, "OVERLOADED", true, false;
    /// The deadline passed; the text says what was waited for.
    Deadline = 10, "DEADLINE", true, false;
    /// The central store can't be reached.
    StoreUnavailable = 11, "STORE_UNAVAILABLE", true, false;
    /// The clock is further behind the last id than `max_drift` allows.
    ClockBehind = 12, "CLOCK_BEHIND", true, false;
    /// The daemon holds no snowflake worker id; the text says why, and whether it is getting one.
    NoWorker = 13, "NO_WORKER", true, false;
    /// The tag's numbers are used up.
    TagExhausted = 14, "TAG_EXHAUSTED", false, false;
    /// The layout's time bits are used up, or the clock is before its epoch.
    TimeExhausted = 15, "TIME_EXHAUSTED", false, false;
    /// The state directory can't be written; nothing is issued until it can.
    Journal = 16, "JOURNAL", true, false;
    /// The daemon is stopping.
    ShuttingDown = 17, "SHUTTING_DOWN", true, true;
    /// A tag of this name is there already.
    TagExists = 18, "TAG_EXISTS", false, false;
    /// An administrative request asks for a value that is not allowed.
    ValueRefused = 19, "VALUE_REFUSED", false, false;
    /// A defect in the daemon.
    Internal = 20, "INTERNAL", false, false;
    /// The daemon has as many connections as it may have.
    ConnectionLimit = 21, "CONNECTION_LIMIT", true, true;
    /// The store answered with something that can't be used safely.
    StoreRefused = 22, "STORE_REFUSED", false, false;
    /// The daemon lacks the key for masking, or has another one than the store knows.
    MaskKey = 23, "MASK_KEY", false, false;
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
