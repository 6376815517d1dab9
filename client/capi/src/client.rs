//! The calls on a client.

use std::ffi::{CStr, OsStr, c_char};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;

use leafd_client::Client;

use crate::call::{call, fill, limit, output, outputs, text};
use crate::handle::{self, Cell, Freed, Kind};
use crate::known::Known;
use crate::status::{Failure, LeafdStatus};
use crate::{LEAFD_DIRECT, LEAFD_NO_POLLING, LEAFD_TIMEOUT_DEFAULT};

/// A process's access to the daemon: one connection for all threads, made on first use, and the ids that the process
/// holds.
pub struct LeafdClient {
    _cell: Cell<Known>,
}

impl Kind for Known {
    const MARK: u64 = 0x636c_6966_6461_656c;
    const NAME: &'static str = "client";
    fn freed() -> &'static Freed<Known> {
        static FREED: Freed<Known> = Freed::new();
        &FREED
    }
}

pub(crate) unsafe fn get<'a>(client: *const LeafdClient) -> Result<&'a Client, Failure> {
    // SAFETY: as the caller's caller says.
    unsafe { known(client) }.map(|known| &known.client)
}

#[inline]
unsafe fn known<'a>(client: *const LeafdClient) -> Result<&'a Known, Failure> {
    // SAFETY: as the caller's caller says.
    unsafe { handle::get(client.cast::<Cell<Known>>()) }
}

/// Makes a client. It connects on first use; `leafd_connect()` connects at once.
///
/// `socket_path`: the daemon's socket, 1 to 107 bytes; NULL: `$LEAFD_SOCKET`, otherwise where a daemon of this user or
/// of the system listens. `timeout_ms`: how long calls without a timeout of their own may take, in milliseconds, at
/// most 60000 (more is cut); `LEAFD_TIMEOUT_DEFAULT`: 2000. After the timeout, a call waits up to 250 ms more for the
/// daemon's own answer why. `flags`: 0, `LEAFD_DIRECT`, `LEAFD_NO_POLLING` or their sum.
///
/// Writes the client to `client`; end it with `leafd_free()`. Errors: `NULL_POINTER`, `INVALID_ARGUMENT`, `RESOURCES`.
/// Any thread; not for signal handlers.
///
/// # Safety
/// `socket_path` is NULL or ends with a zero; `client` is valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leafd_new(
    socket_path: *const c_char,
    timeout_ms: u32,
    flags: u32,
    client: *mut *mut LeafdClient,
) -> LeafdStatus {
    // SAFETY: as the caller says.
    unsafe { leafd_new_waiting(socket_path, timeout_ms, 0, flags, client) }
}

/// As `leafd_new()`, for a process that may start before the daemon does. Calls without a timeout of their own wait up
/// to `wait_ms` milliseconds, at most 3600000 (more is cut), for a missing daemon before their timeout begins to count.
/// If `wait_ms` is less than their timeout, they wait as long as their timeout.
///
/// With 0, as in `leafd_new()`, a daemon that was never there is an error at once. A daemon that seems to be restarting
/// is waited for even so, as long as the timeout lasts: if this client has been connected before, if a socket is left
/// that no daemon listens on, and if one was removed in the last ten seconds.
///
/// # Safety
/// As for `leafd_new()`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leafd_new_waiting(
    socket_path: *const c_char,
    timeout_ms: u32,
    wait_ms: u32,
    flags: u32,
    client: *mut *mut LeafdClient,
) -> LeafdStatus {
    call(|| {
        // SAFETY: as the caller says.
        let client = unsafe { output(client, "client") }?;
        if flags & !(LEAFD_DIRECT | LEAFD_NO_POLLING) != 0 {
            return Err(Failure::invalid(format!(
                "flags are {flags:#x}; this library supports 1 and 2"
            )));
        }
        let mut builder = Client::builder()
            .wait(Duration::from_millis(u64::from(wait_ms)))
            .direct(flags & LEAFD_DIRECT != 0)
            .polling(flags & LEAFD_NO_POLLING == 0);
        if !socket_path.is_null() {
            // SAFETY: as the caller says.
            let bytes = unsafe { CStr::from_ptr(socket_path) }.to_bytes();
            if bytes.is_empty() {
                return Err(Failure::invalid("the socket's path is empty".to_owned()));
            }
            builder = builder.socket(Path::new(OsStr::from_bytes(bytes)));
        }
        if timeout_ms != LEAFD_TIMEOUT_DEFAULT {
            builder = builder.deadline(Duration::from_millis(u64::from(timeout_ms)));
        }
        *client = handle::make(Known::new(builder.build()?)).cast();
        Ok(())
    })
}

/// Ends a client. Tags made from it still work, and keep the connection until the last of them is freed.
///
/// NULL is allowed. Errors: `HANDLE`. No other thread may be in a call with this client. A forked child may free its
/// parent's client: the parent's own is not affected. Not for signal handlers.
///
/// # Safety
/// `client` is NULL, or was made by `leafd_new()` and is not in use.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leafd_free(client: *mut LeafdClient) -> LeafdStatus {
    // SAFETY: as the caller says.
    call(|| unsafe { handle::free(client.cast::<Cell<Known>>()) })
}

/// Connects if there is no connection, and agrees with the daemon on the protocol's version.
///
/// Errors: `VERSION`, or the reason why the daemon did not answer. Any thread; not for signal handlers.
///
/// # Safety
/// `client` is a live client.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leafd_connect(client: *const LeafdClient) -> LeafdStatus {
    call(|| {
        // SAFETY: as the caller says.
        unsafe { get(client) }?.info()?;
        Ok(())
    })
}

/// The next id of `tag`: a number from 1 to 2^63-1, and unique. Most ids come from a run that the process holds, in
/// nanoseconds. Ids of different threads and processes are then not in order of time.
///
/// `tag`: UTF-8, 1 to 128 characters, none of them a control character. A client uses at most 65536 different tags.
///
/// Writes the id to `id`. Errors: `NULL_POINTER`, `HANDLE`, `INVALID_ARGUMENT`, or the reason why the daemon did not
/// answer. Any thread; not for signal handlers. `leafd_tag_next()` saves looking up the name.
///
/// # Safety
/// `client` is a live client, `tag` ends with a zero, `id` is valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leafd_next(
    client: *const LeafdClient,
    tag: *const c_char,
    id: *mut u64,
) -> LeafdStatus {
    call(|| {
        // SAFETY: as the caller says.
        let (known, id) = unsafe { (known(client)?, output(id, "id")?) };
        // SAFETY: as the caller says.
        if let Some(tag) = unsafe { known.find(tag) } {
            *id = tag.next()?;
            return Ok(());
        }
        // SAFETY: as the caller says.
        let (name, place) = unsafe { (text(tag, "tag")?, tag) };
        let tag = known.client.tag(name)?;
        *id = tag.next()?;
        // SAFETY: as the caller says; `text` has found a name there.
        known.remember(unsafe { CStr::from_ptr(place) }, tag);
        Ok(())
    })
}

/// As `leafd_next()`, within `timeout_ms` milliseconds (see `leafd_new()`).
///
/// # Safety
/// As for `leafd_next()`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leafd_next_within(
    client: *const LeafdClient,
    tag: *const c_char,
    timeout_ms: u32,
    id: *mut u64,
) -> LeafdStatus {
    call(|| {
        // SAFETY: as the caller says.
        let (client, tag, id) = unsafe { (get(client)?, text(tag, "tag")?, output(id, "id")?) };
        *id = match limit(timeout_ms) {
            Some(limit) => client.next_within(tag, limit)?,
            None => client.next(tag)?,
        };
        Ok(())
    })
}

/// The next id of `tag`, drawn directly by a request of its own. It is higher than all ids drawn directly on this host
/// before. Takes microseconds, and at most `timeout_ms` milliseconds (see `leafd_new()`). Otherwise as `leafd_next()`.
///
/// # Safety
/// As for `leafd_next()`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leafd_next_direct(
    client: *const LeafdClient,
    tag: *const c_char,
    timeout_ms: u32,
    id: *mut u64,
) -> LeafdStatus {
    call(|| {
        // SAFETY: as the caller says.
        let (client, tag, id) = unsafe { (get(client)?, text(tag, "tag")?, output(id, "id")?) };
        *id = match limit(timeout_ms) {
            Some(limit) => client.next_direct_within(tag, limit)?,
            None => client.next_direct(tag)?,
        };
        Ok(())
    })
}

/// `count` ids of `tag`, in the order of issue, straight from the daemon: all of them within `timeout_ms` milliseconds
/// (see `leafd_new()`), or none.
///
/// Writes them to `ids`, which has room for `count` numbers and may be NULL for 0. More than 1000000 take several
/// requests; at most 1000000000. Errors: as for `leafd_next()`. Any thread; not for signal handlers.
///
/// # Safety
/// `client` is a live client, `tag` ends with a zero, `ids` is valid for writes of `count` numbers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leafd_next_many(
    client: *const LeafdClient,
    tag: *const c_char,
    timeout_ms: u32,
    ids: *mut u64,
    count: usize,
) -> LeafdStatus {
    call(|| {
        // SAFETY: as the caller says.
        let (client, tag, ids) = unsafe { (get(client)?, text(tag, "tag")?, outputs(ids, count)?) };
        fill(&client.tag(tag)?, timeout_ms, ids)
    })
}

/// Copies the path of the daemon's socket, as determined when the client was made.
///
/// Writes at most `size` bytes to `buffer`, including the terminating zero; a longer path is cut. `buffer` may be NULL
/// if `size` is 0. Returns the length of the whole path without the zero; 0 if `client` is no live handle. Any thread;
/// not for signal handlers.
///
/// # Safety
/// `client` is a live client, `buffer` is valid for writes of `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leafd_socket_path(
    client: *const LeafdClient,
    buffer: *mut c_char,
    size: usize,
) -> usize {
    let mut length = 0;
    call(|| {
        // SAFETY: as the caller says.
        let path = unsafe { get(client) }?.socket_path().as_os_str().as_bytes();
        length = path.len();
        if !buffer.is_null() && size > 0 {
            let end = length.min(size - 1);
            // SAFETY: `end` and the zero after it lie within the buffer, as the caller says.
            unsafe {
                std::ptr::copy_nonoverlapping(path.as_ptr(), buffer.cast::<u8>(), end);
                *buffer.add(end) = 0;
            }
        }
        Ok(())
    });
    length
}
