//! The calls on a handle of a tag.

use std::ffi::c_char;

use leafd_client::Tag;

use crate::LEAFD_DIRECT;
use crate::call::{call, fill, limit, output, outputs, text};
use crate::client::{self, LeafdClient};
use crate::handle::{self, Cell, Freed, Kind};
use crate::status::{Failure, LeafdStatus};

/// One tag of a client: the fastest way to draw many ids.
pub struct LeafdTag {
    _cell: Cell<Tag>,
}

impl Kind for Tag {
    const MARK: u64 = 0x7461_6766_6461_656c;
    const NAME: &'static str = "tag";
    fn freed() -> &'static Freed<Tag> {
        static FREED: Freed<Tag> = Freed::new();
        &FREED
    }
}

#[inline]
pub(crate) unsafe fn get<'a>(tag: *const LeafdTag) -> Result<&'a Tag, Failure> {
    // SAFETY: as the caller's caller says.
    unsafe { handle::get(tag.cast::<Cell<Tag>>()) }
}

/// Makes a handle of a tag. The daemon is not asked whether the tag exists.
///
/// `name`: as for `leafd_next()`. `flags`: 0, or `LEAFD_DIRECT` so that this handle's ids are drawn directly.
///
/// Writes the handle to `tag`; end it with `leafd_tag_free()`. It keeps alive what it needs of the client. Errors:
/// `NULL_POINTER`, `HANDLE`, `INVALID_ARGUMENT`, `RESOURCES`. Any thread; not for signal handlers.
///
/// # Safety
/// `client` is a live client, `name` ends with a zero, `tag` is valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leafd_tag_new(
    client: *const LeafdClient,
    name: *const c_char,
    flags: u32,
    tag: *mut *mut LeafdTag,
) -> LeafdStatus {
    call(|| {
        // SAFETY: as the caller says.
        let (client, name, tag) =
            unsafe { (client::get(client)?, text(name, "name")?, output(tag, "tag")?) };
        if flags & !LEAFD_DIRECT != 0 {
            return Err(Failure::invalid(format!("flags are {flags:#x}; a tag supports 1")));
        }
        let made = client.tag(name)?;
        let made = if flags & LEAFD_DIRECT == 0 { made } else { made.direct() };
        *tag = handle::make(made).cast();
        Ok(())
    })
}

/// Ends a tag's handle. NULL is allowed. Errors: `HANDLE`. No other thread may be in a call with it. Not for signal
/// handlers.
///
/// # Safety
/// `tag` is NULL, or was made by `leafd_tag_new()` and is not in use.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leafd_tag_free(tag: *mut LeafdTag) -> LeafdStatus {
    // SAFETY: as the caller says.
    call(|| unsafe { handle::free(tag.cast::<Cell<Tag>>()) })
}

/// The next id; see `leafd_next()`.
///
/// Writes it to `id`. Errors: `NULL_POINTER`, `HANDLE`, or the reason why the daemon did not answer. Any thread;
/// not for signal handlers.
///
/// # Safety
/// `tag` is a live tag, `id` is valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leafd_tag_next(tag: *const LeafdTag, id: *mut u64) -> LeafdStatus {
    call(|| {
        // SAFETY: as the caller says.
        let (tag, id) = unsafe { (get(tag)?, output(id, "id")?) };
        *id = tag.next()?;
        Ok(())
    })
}

/// As `leafd_tag_next()`, within `timeout_ms` milliseconds (see `leafd_new()`).
///
/// # Safety
/// As for `leafd_tag_next()`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leafd_tag_next_within(
    tag: *const LeafdTag,
    timeout_ms: u32,
    id: *mut u64,
) -> LeafdStatus {
    call(|| {
        // SAFETY: as the caller says.
        let (tag, id) = unsafe { (get(tag)?, output(id, "id")?) };
        *id = match limit(timeout_ms) {
            Some(limit) => tag.next_within(limit)?,
            None => tag.next()?,
        };
        Ok(())
    })
}

/// `count` ids; see `leafd_next_many()`.
///
/// # Safety
/// `tag` is a live tag, `ids` is valid for writes of `count` numbers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leafd_tag_next_many(
    tag: *const LeafdTag,
    timeout_ms: u32,
    ids: *mut u64,
    count: usize,
) -> LeafdStatus {
    call(|| {
        // SAFETY: as the caller says.
        let (tag, ids) = unsafe { (get(tag)?, outputs(ids, count)?) };
        fill(tag, timeout_ms, ids)
    })
}

/// An id of the run that the process holds, without waiting; 0: no id is held, or `tag` is no live handle. For
/// bindings that do something before they wait (release an interpreter's lock, say) and then call
/// `leafd_tag_next_within()`. Any thread; not for signal handlers.
///
/// # Safety
/// `tag` is a live tag.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leafd_tag_take(tag: *const LeafdTag) -> u64 {
    let mut id = 0;
    call(|| {
        // SAFETY: as the caller says.
        id = unsafe { get(tag) }?.take().unwrap_or(0);
        Ok(())
    });
    id
}
