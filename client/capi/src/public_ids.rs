//! The calls that convert dense ids to public ids, and back.

use std::ffi::{CStr, c_char};

use leafd_client::PublicIds;

use crate::call::{call, check_room, text, write, write_text};
use crate::connect::{LeafdClient, with};
use crate::error::{CallError, LeafdError, LeafdStatus};

/// Size of the buffer for a public id as text, including the terminating NUL. It is larger than the longest one.
pub const LEAFD_PUBLIC_ID_BYTES: usize = 64;

/// The form of public ids. All zeros select 63 bits, the daemon's current key, and texts without a prefix.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct LeafdPublicForm {
    /// The width of dense and public ids in bits, from 20 to 63; 53 for JavaScript's numbers. 0 selects 63.
    pub bits: u32,
    /// The number of the key, from 1 to 31; 0 selects the daemon's current key. Texts contain the number, so it is
    /// ignored when they are converted back.
    pub key: u32,
    /// The prefix of texts, before a `_`: a letter, then `a` to `z`, `0` to `9` or `_`, at most 32 characters. NULL or
    /// "" selects none.
    pub prefix: *const c_char,
}

/// The tag and the form of a call.
///
/// # Safety
/// As for [`leafd_mask`], for as long as the result is used.
unsafe fn public_ids(
    client: *const LeafdClient,
    tag: *const c_char,
    form: *const LeafdPublicForm,
    timeout_ms: u32,
) -> Result<PublicIds, CallError> {
    // SAFETY: as the header says.
    let (tag, form) = unsafe { (text(tag, "tag")?, form.as_ref()) };
    // SAFETY: as the header says.
    let mut ids = unsafe { with(client, timeout_ms, |client| Ok(client.public_ids(tag))) }?;
    if let Some(form) = form {
        let small = |what: &str, number: u32| {
            u8::try_from(number)
                .map_err(|_| LeafdError::invalid(&format!("{what} can't be {number}")))
        };
        if form.bits != 0 {
            ids = ids.bits(small("bits", form.bits)?);
        }
        ids = ids.key(small("key", form.key)?);
        if !form.prefix.is_null() {
            // SAFETY: as the header says.
            ids = ids.prefix(unsafe { text(form.prefix, "prefix") }?);
        }
    }
    Ok(ids)
}

/// The caller's array.
///
/// # Safety
/// `items` is null, or valid for reads of `count` of them for as long as the slice is used.
unsafe fn given<'a, T>(items: *const T, name: &str, count: usize) -> Result<&'a [T], CallError> {
    check_room(items, name, count)?;
    // SAFETY: as the caller says; an empty slice may have any address but null.
    Ok(if count == 0 { &[] } else { unsafe { std::slice::from_raw_parts(items, count) } })
}

fn text_for_c(text: String) -> Result<[c_char; LEAFD_PUBLIC_ID_BYTES], CallError> {
    if text.len() >= LEAFD_PUBLIC_ID_BYTES {
        let what = format!("the peer sent a public id of {} characters", text.len());
        return Err(LeafdError::new(LeafdStatus::Protocol, &what));
    }
    let mut places = [0; LEAFD_PUBLIC_ID_BYTES];
    write_text(&text, &mut places);
    Ok(places)
}

/// Converts `count` dense ids of `tag` to public ids, as numbers. leafd's guide explains what public ids hide, and who
/// may convert them. Numbers don't contain the number of their key. Once another key is in use, they are converted back
/// to the wrong ids unless `form` names the old key.
///
/// `form` may be NULL, which means all zeros. `timeout_ms` applies to the whole call, which makes one request for every
/// 240 ids.
///
/// Writes to `public_ids`, which has room for `count` numbers and may be the same array as `ids`, and to `error`, which
/// may be NULL. Errors: `VALUE_REFUSED` for an id that is 0 or has too many bits, and for an invalid form; `DENIED` if
/// this user may not mask and unmask; `MASK_KEY` if the daemon has no such key, or a wrong one; `NULL_POINTER`,
/// `HANDLE`, `INVALID_ARGUMENT`, and the request's other errors.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leafd_mask(
    client: *const LeafdClient,
    tag: *const c_char,
    form: *const LeafdPublicForm,
    timeout_ms: u32,
    ids: *const u64,
    public_ids: *mut u64,
    count: usize,
    error: *mut LeafdError,
) -> LeafdStatus {
    // SAFETY: as the header says.
    unsafe {
        call(error, || {
            let asked = self::public_ids(client, tag, form, timeout_ms)?;
            let given = given(ids, "ids", count)?;
            write(public_ids, "public_ids", count, || Ok(asked.mask(given)?))
        })
    }
}

/// Converts public ids that `leafd_mask()` made with the same `form` back to dense ids. `ids` may be the same array as
/// `public_ids`. Otherwise like `leafd_mask()`.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leafd_unmask(
    client: *const LeafdClient,
    tag: *const c_char,
    form: *const LeafdPublicForm,
    timeout_ms: u32,
    public_ids: *const u64,
    ids: *mut u64,
    count: usize,
    error: *mut LeafdError,
) -> LeafdStatus {
    // SAFETY: as the header says.
    unsafe {
        call(error, || {
            let asked = self::public_ids(client, tag, form, timeout_ms)?;
            let given = given(public_ids, "public_ids", count)?;
            write(ids, "ids", count, || Ok(asked.unmask(given)?))
        })
    }
}

/// Like `leafd_mask()`, but writes texts to `texts`, such as "ord_16dsky4r4xzza8d" with the prefix "ord". Each text is
/// NUL-terminated.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leafd_mask_text(
    client: *const LeafdClient,
    tag: *const c_char,
    form: *const LeafdPublicForm,
    timeout_ms: u32,
    ids: *const u64,
    texts: *mut [c_char; LEAFD_PUBLIC_ID_BYTES],
    count: usize,
    error: *mut LeafdError,
) -> LeafdStatus {
    // SAFETY: as the header says.
    unsafe {
        call(error, || {
            let asked = self::public_ids(client, tag, form, timeout_ms)?;
            let given = given(ids, "ids", count)?;
            write(texts, "texts", count, || {
                asked.mask_text(given)?.into_iter().map(text_for_c).collect::<Result<Vec<_>, _>>()
            })
        })
    }
}

/// Converts `count` texts that `leafd_mask_text()` made with the same bits and prefix back to dense ids.
///
/// Writes them to `ids`, which has room for `count` numbers. Also returns `VALUE_REFUSED` for a text that is not a
/// public id of this form, because it was mistyped, truncated or made up; the message names the first one.
/// Otherwise like `leafd_mask()`.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leafd_unmask_text(
    client: *const LeafdClient,
    tag: *const c_char,
    form: *const LeafdPublicForm,
    timeout_ms: u32,
    texts: *const *const c_char,
    ids: *mut u64,
    count: usize,
    error: *mut LeafdError,
) -> LeafdStatus {
    // SAFETY: as the header says.
    unsafe {
        call(error, || {
            let asked = self::public_ids(client, tag, form, timeout_ms)?;
            let given = given(texts, "texts", count)?;
            if given.iter().any(|text| text.is_null()) {
                return Err(LeafdError::null("texts[i]"));
            }
            // The text may be anything that a user typed; the daemon rejects invalid texts.
            let shown: Vec<_> =
                given.iter().map(|&text| CStr::from_ptr(text).to_string_lossy()).collect();
            write(ids, "ids", count, || Ok(asked.unmask_text(&shown)?))
        })
    }
}
