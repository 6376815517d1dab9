//! The numbers that calls return, with their names and texts.

use std::ffi::{CStr, c_char};
use std::io;

use leafd_client::Error;

/// The outcome of a call. A number is assigned once and never reused.
///
/// Up to 999: the daemon's answer, with the numbers of leafd's protocol. From 1000 on: what the library found.
/// Later releases may add numbers: treat an unknown one like `LEAFD_STATUS_INTERNAL`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeafdStatus {
    /// Done; the outputs are written.
    Ok = 0,
    /// The body doesn't fit the opcode.
    Malformed = 1,
    /// The daemon doesn't know the request: it is older than the library.
    UnknownOpcode = 2,
    /// The library and the daemon have no protocol version in common.
    Version = 3,
    /// A length field is out of range.
    FrameLength = 4,
    /// The tag's name is invalid.
    TagInvalid = 5,
    /// The store has no such tag.
    TagUnknown = 6,
    /// The count is zero or above the limit.
    CountInvalid = 7,
    /// This user may not do this.
    Denied = 8,
    /// One of the daemon's queues is full. A retry may help.
    Overloaded = 9,
    /// The deadline passed in the daemon; the message says what the request waited for. A retry may help.
    Deadline = 10,
    /// The central store can't be reached. A retry may help.
    StoreUnavailable = 11,
    /// The clock is further behind the last id than the daemon allows. A retry may help.
    ClockBehind = 12,
    /// The daemon holds no snowflake worker id; the message says why. A retry may help.
    NoWorker = 13,
    /// The tag's numbers are used up.
    TagExhausted = 14,
    /// The layout's time bits are used up, or the clock is before its epoch.
    TimeExhausted = 15,
    /// The daemon's state directory can't be written. A retry may help.
    Journal = 16,
    /// The daemon is stopping, and no other one started in time. A retry may help.
    ShuttingDown = 17,
    /// A tag of this name exists already.
    TagExists = 18,
    /// A value in an administrative request is not allowed.
    ValueRefused = 19,
    /// A defect in the daemon; also a status that this library doesn't know.
    Internal = 20,
    /// The daemon has reached its connection limit. A retry may help.
    ConnectionLimit = 21,
    /// The store answered with something that can't be used safely.
    StoreRefused = 22,
    /// The daemon lacks the key for masking, or its key is not the one that the store records.
    MaskKey = 23,

    /// No connection could be made: no daemon listens, or this user may not open the socket.
    Connect = 1000,
    /// The connection broke while the call waited, and again after a retry. A retry may help.
    Disconnected = 1001,
    /// No answer came within the timeout. A retry may help.
    Timeout = 1002,
    /// The peer sent something that is not leafd's protocol.
    Protocol = 1003,
    /// An argument is invalid.
    InvalidArgument = 1004,
    /// A limit of the library or the system was reached.
    Resources = 1005,
    /// A required pointer is NULL.
    NullPointer = 1006,
    /// A pointer is no handle of its kind: it has been freed, or never was one. Found as far as memory can tell.
    Handle = 1007,
    /// A defect in the library.
    Panic = 1008,
    /// The interpreter ended the call after a signal; see `leafd_set_interpreter()`.
    Interrupted = 1009,
}

/// A failed call, with all that is known about it.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) status: LeafdStatus,
    pub(crate) message: String,
    pub(crate) retry_after_ms: u32,
    pub(crate) retryable: bool,
    pub(crate) os_error: i32,
}

type Described = (LeafdStatus, &'static CStr, &'static CStr);

/// Every status with its name and a sentence.
const STATUSES: [Described; 34] = {
    use LeafdStatus as S;
    [
        (S::Ok, c"OK", c"done"),
        (S::Malformed, c"MALFORMED", c"the body is not what the opcode asks for"),
        (S::UnknownOpcode, c"UNKNOWN_OPCODE", c"the daemon doesn't know the request"),
        (S::Version, c"VERSION", c"library and daemon have no protocol version in common"),
        (S::FrameLength, c"FRAME_LENGTH", c"a length field that no frame may have"),
        (S::TagInvalid, c"TAG_INVALID", c"the tag's name is not one that a tag can have"),
        (S::TagUnknown, c"TAG_UNKNOWN", c"the store has no such tag"),
        (S::CountInvalid, c"COUNT_INVALID", c"the count is zero or above the limit"),
        (S::Denied, c"DENIED", c"this user may not do this"),
        (S::Overloaded, c"OVERLOADED", c"a queue of the daemon's is full"),
        (S::Deadline, c"DEADLINE", c"the deadline passed in the daemon"),
        (S::StoreUnavailable, c"STORE_UNAVAILABLE", c"the central store can't be reached"),
        (S::ClockBehind, c"CLOCK_BEHIND", c"the clock is too far behind the last id"),
        (S::NoWorker, c"NO_WORKER", c"the daemon holds no snowflake worker id"),
        (S::TagExhausted, c"TAG_EXHAUSTED", c"the tag's numbers are used up"),
        (
            S::TimeExhausted,
            c"TIME_EXHAUSTED",
            c"the layout's time bits can't hold the present time",
        ),
        (S::Journal, c"JOURNAL", c"the daemon's state directory can't be written"),
        (S::ShuttingDown, c"SHUTTING_DOWN", c"the daemon is stopping"),
        (S::TagExists, c"TAG_EXISTS", c"a tag of this name is there already"),
        (S::ValueRefused, c"VALUE_REFUSED", c"a value that is not allowed"),
        (S::Internal, c"INTERNAL", c"a defect in the daemon"),
        (S::ConnectionLimit, c"CONNECTION_LIMIT", c"the daemon has no room for a connection"),
        (S::StoreRefused, c"STORE_REFUSED", c"the store holds something that can't be used safely"),
        (S::MaskKey, c"MASK_KEY", c"the daemon lacks the key for masking, or has a wrong one"),
        (S::Connect, c"CONNECT", c"no connection to the daemon could be made"),
        (S::Disconnected, c"DISCONNECTED", c"the connection to the daemon broke"),
        (S::Timeout, c"TIMEOUT", c"no answer came within the timeout"),
        (S::Protocol, c"PROTOCOL", c"the peer doesn't speak leafd's protocol"),
        (S::InvalidArgument, c"INVALID_ARGUMENT", c"an argument is not valid"),
        (S::Resources, c"RESOURCES", c"a limit of the library or the system was reached"),
        (S::NullPointer, c"NULL_POINTER", c"a pointer is NULL that must not be"),
        (S::Handle, c"HANDLE", c"a pointer is no handle of its kind"),
        (S::Panic, c"PANIC", c"a defect in the library"),
        (S::Interrupted, c"INTERRUPTED", c"a signal ended the call"),
    ]
};

fn described(status: u32) -> Option<&'static Described> {
    STATUSES.iter().find(|(known, _, _)| *known as u32 == status)
}

/// The name of a status, such as "TAG_UNKNOWN"; "UNKNOWN" for an unknown number. The text stays valid for ever.
/// Safe at any time, also in signal handlers.
#[unsafe(no_mangle)]
pub extern "C" fn leafd_status_name(status: u32) -> *const c_char {
    described(status).map_or(c"UNKNOWN", |(_, name, _)| name).as_ptr()
}

/// The meaning of a status in a few words. The text stays valid for ever. `leafd_error_message()` tells more. Safe
/// at any time, also in signal handlers.
#[unsafe(no_mangle)]
pub extern "C" fn leafd_status_text(status: u32) -> *const c_char {
    described(status)
        .map_or(c"a status that this library doesn't know", |(_, _, text)| text)
        .as_ptr()
}

// === impl Failure ===

impl Failure {
    /// A failure that a retry doesn't help.
    pub(crate) fn new(status: LeafdStatus, message: String) -> Failure {
        Failure { status, message, retry_after_ms: 0, retryable: false, os_error: 0 }
    }

    #[cold]
    pub(crate) fn null(name: &str) -> Failure {
        Failure::new(LeafdStatus::NullPointer, format!("the pointer `{name}` is NULL"))
    }

    pub(crate) fn invalid(message: String) -> Failure {
        Failure::new(LeafdStatus::InvalidArgument, message)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        let os = |source: &io::Error| source.raw_os_error().unwrap_or(0);
        let (status, os_error) = match &error {
            Error::Service { status, .. } => {
                let known = described(*status as u32).map(|(known, _, _)| *known);
                (known.unwrap_or(LeafdStatus::Internal), 0)
            }
            Error::Connect { source, .. } => (LeafdStatus::Connect, os(source)),
            Error::Disconnected { source, .. } => (LeafdStatus::Disconnected, os(source)),
            Error::Timeout { .. } => (LeafdStatus::Timeout, 0),
            Error::Interrupted => (LeafdStatus::Interrupted, libc::EINTR),
            Error::Protocol { .. } => (LeafdStatus::Protocol, 0),
            Error::InvalidArgument { .. } => (LeafdStatus::InvalidArgument, 0),
            Error::Resources { source, .. } => (LeafdStatus::Resources, os(source)),
            _ => (LeafdStatus::Internal, 0),
        };
        let retry_after = error.retry_after().map_or(0, |after| after.as_millis());
        Failure {
            status,
            message: error.to_string(),
            retry_after_ms: u32::try_from(retry_after).unwrap_or(u32::MAX),
            retryable: error.is_retryable(),
            os_error,
        }
    }
}
