//! Clients: how they are created, what they report, and how they are freed.

use std::ffi::{CStr, OsStr, c_char};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::time::Duration;

use leafd_client::Client;

use crate::call::{call, call_for, limit, number_or, write_text};
use crate::error::{CallError, LeafdError, LeafdStatus};
use crate::handle::{self, FreedHandles, Handle, HandleKind};
use crate::{LEAFD_DIRECT, LEAFD_NO_POLLING};

/// Size of a daemon's release in a `leafd_daemon_info`, including the terminating NUL.
pub const LEAFD_RELEASE_BYTES: usize = 32;

/// A process's access to the daemon, for all its threads: a small pool of connections, opened on first use, and the ids
/// that the process holds.
pub struct LeafdClient {
    _handle: Handle<Client>,
}

/// The settings of a client. All zeros select the defaults.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct LeafdSettings {
    /// The path of the daemon's socket, 1 to 107 bytes. NULL selects `$LEAFD_SOCKET`, or else the socket of this user's
    /// daemon or of the system's.
    pub socket_path: *const c_char,
    /// How long calls with `LEAFD_TIMEOUT_DEFAULT` may take, in milliseconds, capped at 60000. 0 selects 2000.
    pub timeout_ms: u32,
    /// How long such calls wait for a missing daemon before their timeout starts, in milliseconds, capped at 3600000.
    /// Use this in a process that may start before the daemon. If the value is less than their timeout, they wait for
    /// as long as their timeout.
    ///
    /// With 0, calls fail immediately if no daemon has ever run. Even then, they wait until their timeout for a daemon
    /// that appears to be restarting: if this client was connected before, if a socket exists on which no daemon
    /// listens, or if a socket was removed in the last ten seconds.
    pub wait_ms: u32,
    /// 0, `LEAFD_DIRECT`, `LEAFD_NO_POLLING`, or both combined with `|`.
    pub flags: u32,
}

/// What the daemon reports about itself.
#[repr(C)]
pub struct LeafdInfo {
    /// Whether ids of segment tags are available now.
    pub segments_ready: bool,
    /// Whether snowflake ids are available now.
    pub snowflake_ready: bool,
    /// The daemon's process id, in its own process namespace.
    pub pid: u32,
    /// The daemon's release, such as "0.1.0".
    pub release: [c_char; LEAFD_RELEASE_BYTES],
}

/// The client of [`leafd_shared`], once it exists.
static SHARED: AtomicPtr<LeafdClient> = AtomicPtr::new(std::ptr::null_mut());

impl HandleKind for Client {
    const MARK: u64 = 0x636c_6966_6461_656c;
    const NAME: &'static str = "client";
    fn freed() -> &'static FreedHandles<Client> {
        static FREED: FreedHandles<Client> = FreedHandles::new();
        &FREED
    }
}

#[inline]
pub(crate) unsafe fn get<'a>(client: *const LeafdClient) -> Result<&'a Client, CallError> {
    // SAFETY: as the caller's caller says.
    unsafe { handle::get(client.cast::<Handle<Client>>()) }
}

/// Runs `body` with the client, limited by the call's timeout.
#[inline]
pub(crate) unsafe fn with<T>(
    client: *const LeafdClient,
    timeout_ms: u32,
    body: impl FnOnce(&Client) -> leafd_client::Result<T>,
) -> Result<T, CallError> {
    // SAFETY: as the caller's caller says.
    let client = unsafe { get(client) }?;
    Ok(match limit(timeout_ms) {
        Some(limit) => body(&client.within(limit))?,
        None => body(client)?,
    })
}

/// Creates a client. It connects on first use; `leafd_info()` connects immediately.
///
/// `settings`: NULL for the defaults. Free the client with `leafd_free()`. Errors: `NULL_POINTER`, `INVALID_ARGUMENT`,
/// `RESOURCES`.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leafd_new(
    settings: *const LeafdSettings,
    client: *mut *mut LeafdClient,
    error: *mut LeafdError,
) -> LeafdStatus {
    // SAFETY: as the header says.
    unsafe {
        call_for(error, client, "client", || {
            let mut builder = Client::builder();
            if let Some(settings) = settings.as_ref() {
                let flags = settings.flags;
                if flags & !(LEAFD_DIRECT | LEAFD_NO_POLLING) != 0 {
                    let message = format!("flags are {flags:#x}; this library supports 1 and 2");
                    return Err(LeafdError::invalid(&message));
                }
                builder = builder
                    .wait(Duration::from_millis(u64::from(settings.wait_ms)))
                    .direct(flags & LEAFD_DIRECT != 0)
                    .polling(flags & LEAFD_NO_POLLING == 0);
                if !settings.socket_path.is_null() {
                    let path = CStr::from_ptr(settings.socket_path).to_bytes();
                    builder = builder.socket(Path::new(OsStr::from_bytes(path)));
                }
                if settings.timeout_ms != 0 {
                    let timeout = Duration::from_millis(u64::from(settings.timeout_ms));
                    builder = builder.deadline(timeout);
                }
            }
            Ok(handle::make(builder.build()?).cast())
        })
    }
}

/// Returns a client with the default settings that all callers in the process share. The first call creates it.
///
/// Use it in runtimes that discard their variables while the process keeps running, as PHP does after each request: the
/// client keeps its connections and held ids. It is never freed; `leafd_free()` has no effect on it. Errors:
/// `NULL_POINTER`, `INVALID_ARGUMENT`, `RESOURCES`.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leafd_shared(
    client: *mut *mut LeafdClient,
    error: *mut LeafdError,
) -> LeafdStatus {
    // SAFETY: as the header says.
    unsafe {
        call_for(error, client, "client", || {
            let shared = SHARED.load(Ordering::Acquire);
            if !shared.is_null() {
                return Ok(shared);
            }
            let own = handle::make(Client::builder().build()?);
            let set = SHARED.compare_exchange(
                std::ptr::null_mut(),
                own.cast(),
                Ordering::AcqRel,
                Ordering::Acquire,
            );
            match set {
                Ok(_) => Ok(own.cast()),
                // Another thread was faster.
                Err(shared) => handle::free(own).map(|()| shared),
            }
        })
    }
}

/// Frees a client. Tags created from it still work, and keep its connections until the last of them is freed.
///
/// NULL is allowed. Errors: `HANDLE`. No other thread may be in a call with this client. A forked child may free its
/// parent's client, which the parent can continue to use.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leafd_free(client: *mut LeafdClient) -> LeafdStatus {
    // SAFETY: as the header says.
    unsafe {
        call(std::ptr::null_mut(), || match client == SHARED.load(Ordering::Acquire) {
            true => Ok(()),
            false => handle::free(client.cast::<Handle<Client>>()),
        })
    }
}

/// Asks the daemon for its release and whether it is ready. The call connects if there is no connection, and negotiates
/// the protocol version.
///
/// Errors: `NULL_POINTER`, `HANDLE`, and the request's errors, such as `VERSION`.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leafd_info(
    client: *const LeafdClient,
    timeout_ms: u32,
    info: *mut LeafdInfo,
    error: *mut LeafdError,
) -> LeafdStatus {
    // SAFETY: as the header says.
    unsafe {
        call_for(error, info, "info", || {
            let info = with(client, timeout_ms, Client::info)?;
            let mut release = [0; LEAFD_RELEASE_BYTES];
            write_text(&info.release, &mut release);
            let (segments_ready, snowflake_ready) = (info.segments_ready, info.snowflake_ready);
            Ok(LeafdInfo { segments_ready, snowflake_ready, pid: info.pid, release })
        })
    }
}

/// Copies the path of the daemon's socket, as determined when the client was created.
///
/// Writes at most `size` bytes to `buffer`, including the terminating NUL; a longer path is truncated. `buffer` may be
/// NULL if `size` is 0. Returns the length of the whole path without the NUL, or 0 if `client` is not a live handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leafd_socket_path(
    client: *const LeafdClient,
    buffer: *mut c_char,
    size: usize,
) -> usize {
    number_or(0, || {
        // SAFETY: as the header says; `end` and the zero after it are within the buffer.
        unsafe {
            let path = get(client)?.socket_path().as_os_str().as_bytes();
            if !buffer.is_null() && size > 0 {
                let end = path.len().min(size - 1);
                std::ptr::copy_nonoverlapping(path.as_ptr(), buffer.cast::<u8>(), end);
                *buffer.add(end) = 0;
            }
            Ok(path.len())
        }
    })
}
