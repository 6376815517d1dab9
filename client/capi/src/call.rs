//! What every call shares: checked pointers, errors written for the caller, and no panics across the C boundary.

use std::any::Any;
use std::ffi::{CStr, c_char};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use crate::LEAFD_TIMEOUT_DEFAULT;
use crate::error::{CallError, LeafdError, LeafdStatus, known};

/// Runs a call's body, writes its error, and returns its status.
///
/// # Safety
/// `error` is null or valid for a write.
#[inline]
pub(crate) unsafe fn call(
    error: *mut LeafdError,
    body: impl FnOnce() -> Result<(), CallError>,
) -> LeafdStatus {
    // A body writes its outputs last, so a panic leaves no partial output.
    let failed = match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(())) => None,
        Ok(Err(failed)) => Some(failed),
        Err(panic) => Some(panicked(panic.as_ref())),
    };
    // SAFETY: as the caller says.
    match (unsafe { error.as_mut() }, &failed) {
        (Some(error), None) => error.clear(),
        (Some(error), Some(failed)) => *error = **failed,
        (None, _) => {}
    }
    failed.and_then(|failed| known(failed.status)).map_or(LeafdStatus::Ok, |(status, _)| status)
}

/// Runs a call's body, and writes its result to an output.
///
/// # Safety
/// As for [`call`] and [`output`].
#[inline]
pub(crate) unsafe fn call_for<T>(
    error: *mut LeafdError,
    place: *mut T,
    name: &str,
    body: impl FnOnce() -> Result<T, CallError>,
) -> LeafdStatus {
    // SAFETY: as the caller says.
    unsafe {
        call(error, || {
            let place = output(place, name)?;
            *place = body()?;
            Ok(())
        })
    }
}

/// The number that a call's body returns; `none` if it fails.
pub(crate) fn number_or<T>(none: T, body: impl FnOnce() -> Result<T, CallError>) -> T {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(number)) => number,
        _ => none,
    }
}

#[cold]
fn panicked(panic: &(dyn Any + Send)) -> CallError {
    let said = panic.downcast_ref::<&str>().copied();
    let said = said.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    let said = said.unwrap_or("a panic without a message");
    let message = format!("a bug in libleafd: {said}; please report it");
    LeafdError::new(LeafdStatus::Panic, &message)
}

/// # Safety
/// `output` is null or valid for writes.
#[inline]
unsafe fn output<'a, T>(output: *mut T, name: &str) -> Result<&'a mut T, CallError> {
    // SAFETY: as the caller says.
    unsafe { output.as_mut() }.ok_or_else(|| LeafdError::null(name))
}

/// A text from C.
///
/// # Safety
/// `text` is null or NUL-terminated.
#[inline]
pub(crate) unsafe fn text<'a>(text: *const c_char, name: &str) -> Result<&'a str, CallError> {
    if text.is_null() {
        return Err(LeafdError::null(name));
    }
    // SAFETY: as the caller says.
    let bytes = unsafe { CStr::from_ptr(text) };
    bytes.to_str().map_err(|_| LeafdError::invalid(&format!("the {name} {bytes:?} is not UTF-8")))
}

/// Writes the `count` results of `body` to the caller's array.
///
/// # Safety
/// `place` is null, or valid for writes of `count` results.
pub(crate) unsafe fn write<R: IntoIterator>(
    place: *mut R::Item,
    name: &str,
    count: usize,
    body: impl FnOnce() -> Result<R, CallError>,
) -> Result<(), CallError> {
    check_room(place, name, count)?;
    for (index, result) in body()?.into_iter().take(count).enumerate() {
        // SAFETY: as the caller says; the index is below `count`.
        unsafe { place.add(index).write(result) };
    }
    Ok(())
}

/// Checks the caller's array.
pub(crate) fn check_room<T>(items: *const T, name: &str, count: usize) -> Result<(), CallError> {
    if count > isize::MAX as usize / size_of::<T>() {
        return Err(LeafdError::invalid(&format!("{count} ids don't fit in memory")));
    }
    if items.is_null() && count > 0 {
        return Err(LeafdError::null(name));
    }
    Ok(())
}

/// The time limit of a call. `None`: the client's own.
pub(crate) fn limit(timeout_ms: u32) -> Option<Duration> {
    (timeout_ms != LEAFD_TIMEOUT_DEFAULT).then(|| Duration::from_millis(u64::from(timeout_ms)))
}

/// Writes as much of a text as fits into `places`, in whole characters, and a terminating NUL.
pub(crate) fn write_text(text: &str, places: &mut [c_char]) {
    let Some(longest) = places.len().checked_sub(1) else { return };
    // 0 is always the start of a character.
    let fits = |end: &usize| text.is_char_boundary(*end);
    let end = (0..=longest.min(text.len())).rev().find(fits).unwrap_or(0);
    for (place, byte) in places.iter_mut().zip(text[..end].bytes().chain([0])) {
        *place = byte as c_char;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_becomes_a_status_with_its_words() {
        let mut error = LeafdError::EMPTY;
        // SAFETY: the structure is valid for a write.
        let status = unsafe { call(&raw mut error, || panic!("a slot went {}", "missing")) };
        assert_eq!(status, LeafdStatus::Panic);
        // SAFETY: a message is NUL-terminated.
        let why = unsafe { CStr::from_ptr(error.message.as_ptr()) }.to_str().unwrap();
        assert!(why.contains("a bug in libleafd: a slot went missing"), "{why}");
        assert_eq!(number_or(7, || panic!("again")), 7);
        assert_eq!(number_or(7, || Ok(8)), 8);
    }
}
