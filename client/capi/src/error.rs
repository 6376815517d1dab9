//! The numbers that calls return, and the structure that describes a failure.

use std::ffi::{CStr, c_char};
use std::io;

use leafd_client::Error;

use crate::call::write_text;

/// The outcome of a call. Numbers are never reused.
///
/// Numbers up to 999 are the daemon's statuses, as in leafd's protocol; numbers from 1000 on are the library's errors.
/// Later releases may add numbers, so treat an unknown number like `LEAFD_STATUS_INTERNAL`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeafdStatus {
    /// Success; the outputs are written.
    Ok = 0,
    /// The body doesn't match the opcode.
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
    /// This user has no right to do this.
    Denied = 8,
    /// One of the daemon's queues is full. A retry may help.
    Overloaded = 9,
    /// The deadline passed in the daemon; the message says what the request was waiting for. A retry may help.
    Deadline = 10,
    /// The store is unavailable. A retry may help.
    StoreUnavailable = 11,
    /// The clock is behind the last id by more than the daemon allows. A retry may help.
    ClockBehind = 12,
    /// The daemon holds no worker number; the message says why. A retry may help.
    NoWorker = 13,
    /// All ids up to the tag's ceiling are used.
    TagExhausted = 14,
    /// The layout's time bits are exhausted, or the clock is before its epoch.
    TimeExhausted = 15,
    /// The daemon's state directory can't be written. A retry may help.
    Journal = 16,
    /// The daemon is stopping, and no new one started in time. A retry may help.
    ShuttingDown = 17,
    /// A tag of this name already exists.
    TagExists = 18,
    /// A value in an administrative request is not allowed.
    ValueRefused = 19,
    /// A bug in the daemon, or a status that this library doesn't know.
    Internal = 20,
    /// The daemon has reached its connection limit. A retry may help.
    ConnectionLimit = 21,
    /// The store's data for this tag can't be used safely.
    StoreRefused = 22,
    /// The daemon has no key for masking, or its key differs from the one that the store knows.
    MaskKey = 23,

    /// The connection failed: no daemon listens, or this user may not open the socket.
    Connect = 1000,
    /// The connection broke while the call waited, and again after a retry. A retry may help.
    Disconnected = 1001,
    /// No answer came within the timeout. A retry may help.
    Timeout = 1002,
    /// The peer doesn't follow leafd's protocol.
    Protocol = 1003,
    /// An argument is invalid.
    InvalidArgument = 1004,
    /// A limit of the library or the system was reached.
    Resources = 1005,
    /// A required pointer is NULL.
    NullPointer = 1006,
    /// A pointer is not a handle of this kind: it was freed, or never was one. Detected where possible.
    Handle = 1007,
    /// A bug in the library.
    Panic = 1008,
    /// The interpreter ended the call after a signal; see `leafd_set_interpreter()`.
    Interrupted = 1009,
}

/// The error of a call. After `LEAFD_STATUS_OK`, it contains that status, an empty message and zeros.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct LeafdError {
    /// The status that the call returned.
    pub status: u32,
    /// The number of milliseconds after which a retry may succeed, or 0 if unknown.
    pub retry_after_ms: u32,
    /// The system's error number (an `errno`) that caused the error, or 0 if there is none.
    pub os_error: i32,
    /// Whether the same call may succeed later without any other action.
    pub retryable: bool,
    /// What failed, why, and what to do: NUL-terminated UTF-8, truncated between characters if necessary.
    pub message: [c_char; LEAFD_ERROR_MESSAGE_BYTES],
}

/// Size of the message in a `leafd_error`, including the terminating NUL.
pub const LEAFD_ERROR_MESSAGE_BYTES: usize = 1024;

/// The error of a failed call, as C receives it.
pub(crate) type CallError = Box<LeafdError>;

/// Every status with its name.
const STATUSES: [(LeafdStatus, &CStr); 34] = {
    use LeafdStatus as S;
    [
        (S::Ok, c"OK"),
        (S::Malformed, c"MALFORMED"),
        (S::UnknownOpcode, c"UNKNOWN_OPCODE"),
        (S::Version, c"VERSION"),
        (S::FrameLength, c"FRAME_LENGTH"),
        (S::TagInvalid, c"TAG_INVALID"),
        (S::TagUnknown, c"TAG_UNKNOWN"),
        (S::CountInvalid, c"COUNT_INVALID"),
        (S::Denied, c"DENIED"),
        (S::Overloaded, c"OVERLOADED"),
        (S::Deadline, c"DEADLINE"),
        (S::StoreUnavailable, c"STORE_UNAVAILABLE"),
        (S::ClockBehind, c"CLOCK_BEHIND"),
        (S::NoWorker, c"NO_WORKER"),
        (S::TagExhausted, c"TAG_EXHAUSTED"),
        (S::TimeExhausted, c"TIME_EXHAUSTED"),
        (S::Journal, c"JOURNAL"),
        (S::ShuttingDown, c"SHUTTING_DOWN"),
        (S::TagExists, c"TAG_EXISTS"),
        (S::ValueRefused, c"VALUE_REFUSED"),
        (S::Internal, c"INTERNAL"),
        (S::ConnectionLimit, c"CONNECTION_LIMIT"),
        (S::StoreRefused, c"STORE_REFUSED"),
        (S::MaskKey, c"MASK_KEY"),
        (S::Connect, c"CONNECT"),
        (S::Disconnected, c"DISCONNECTED"),
        (S::Timeout, c"TIMEOUT"),
        (S::Protocol, c"PROTOCOL"),
        (S::InvalidArgument, c"INVALID_ARGUMENT"),
        (S::Resources, c"RESOURCES"),
        (S::NullPointer, c"NULL_POINTER"),
        (S::Handle, c"HANDLE"),
        (S::Panic, c"PANIC"),
        (S::Interrupted, c"INTERRUPTED"),
    ]
};

pub(crate) fn known(status: u32) -> Option<(LeafdStatus, &'static CStr)> {
    STATUSES.iter().find(|(known, _)| *known as u32 == status).copied()
}

/// Returns the name of a status, such as "TAG_UNKNOWN", or "UNKNOWN" for an unknown number. The string stays valid
/// forever. Safe at any time, even in signal handlers.
#[unsafe(no_mangle)]
pub extern "C" fn leafd_status_name(status: u32) -> *const c_char {
    known(status).map_or(c"UNKNOWN", |(_, name)| name).as_ptr()
}

/// Returns whether a status means that a call timed out: `DEADLINE` if the daemon reported it, `TIMEOUT` if it did
/// not answer in time. Safe at any time, even in signal handlers.
#[unsafe(no_mangle)]
pub extern "C" fn leafd_status_is_timeout(status: u32) -> bool {
    status == LeafdStatus::Deadline as u32 || status == LeafdStatus::Timeout as u32
}

// === impl LeafdError ===

impl LeafdError {
    /// The error of a call that succeeded.
    pub(crate) const EMPTY: LeafdError = LeafdError {
        status: LeafdStatus::Ok as u32,
        retry_after_ms: 0,
        os_error: 0,
        retryable: false,
        message: [0; LEAFD_ERROR_MESSAGE_BYTES],
    };

    /// Clears an error without touching most of its message.
    pub(crate) fn clear(&mut self) {
        *self = LeafdError { message: self.message, ..LeafdError::EMPTY };
        self.message[0] = 0;
    }

    /// An error that is not retryable.
    #[cold]
    pub(crate) fn new(status: LeafdStatus, message: &str) -> CallError {
        let mut error = Box::new(LeafdError { status: status as u32, ..LeafdError::EMPTY });
        write_text(message, &mut error.message);
        error
    }

    pub(crate) fn null(name: &str) -> CallError {
        LeafdError::new(LeafdStatus::NullPointer, &format!("the pointer `{name}` is NULL"))
    }

    pub(crate) fn invalid(message: &str) -> CallError {
        LeafdError::new(LeafdStatus::InvalidArgument, message)
    }
}

impl From<Error> for CallError {
    fn from(error: Error) -> CallError {
        let os = |source: &io::Error| source.raw_os_error().unwrap_or(0);
        let (status, os_error) = match &error {
            Error::Service { status, .. } => {
                (known(*status as u32).map_or(LeafdStatus::Internal, |(known, _)| known), 0)
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
        let mut failed = LeafdError::new(status, &error.to_string());
        failed.retry_after_ms = u32::try_from(retry_after).unwrap_or(u32::MAX);
        failed.retryable = error.is_retryable();
        failed.os_error = os_error;
        failed
    }
}
