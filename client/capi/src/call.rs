//! What every call shares: checked pointers, remembered failures, and no panic into C.

use std::any::Any;
use std::ffi::{CStr, c_char};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use leafd_client::{BATCH_MAX, Tag};

use crate::LEAFD_TIMEOUT_DEFAULT;
use crate::error::LeafdError;
use crate::last::remember;
use crate::status::{Failure, LeafdStatus};

/// Runs a call's body and turns its outcome into a status.
#[inline]
pub(crate) fn call(body: impl FnOnce() -> Result<(), Failure>) -> LeafdStatus {
    // A body writes its outputs last, so a panic leaves nothing half done.
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(())) => LeafdStatus::Ok,
        Ok(Err(failure)) => failed(failure),
        Err(panic) => failed(panicked(panic.as_ref())),
    }
}

/// As [`call`], and also writes the outcome into the caller's structure.
///
/// # Safety
/// `error` is null or valid for a write.
pub(crate) unsafe fn call_told(
    error: *mut LeafdError,
    body: impl FnOnce() -> Result<(), Failure>,
) -> LeafdStatus {
    let outcome = match catch_unwind(AssertUnwindSafe(body)) {
        Ok(outcome) => outcome,
        Err(panic) => Err(panicked(panic.as_ref())),
    };
    // SAFETY: as the caller says.
    if let Some(error) = unsafe { error.as_mut() } {
        error.tell(outcome.as_ref().err());
    }
    match outcome {
        Ok(()) => LeafdStatus::Ok,
        Err(failure) => failed(failure),
    }
}

#[cold]
fn failed(failure: Failure) -> LeafdStatus {
    let status = failure.status;
    remember(failure);
    status
}

fn panicked(panic: &(dyn Any + Send)) -> Failure {
    let said = panic.downcast_ref::<&str>().copied();
    let said = said.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    Failure::new(
        LeafdStatus::Panic,
        format!(
            "a defect in libleafd: {}; please report it",
            said.unwrap_or("a panic without a message")
        ),
    )
}

/// The place of an output.
///
/// # Safety
/// `output` is null or valid for writes.
#[inline]
pub(crate) unsafe fn output<'a, T>(output: *mut T, name: &str) -> Result<&'a mut T, Failure> {
    // SAFETY: as the caller says.
    unsafe { output.as_mut() }.ok_or_else(|| Failure::null(name))
}

/// A structure from C.
///
/// # Safety
/// `input` is null or valid for reads.
pub(crate) unsafe fn input<T: Copy>(input: *const T, name: &str) -> Result<T, Failure> {
    // SAFETY: as the caller says.
    unsafe { input.as_ref() }.copied().ok_or_else(|| Failure::null(name))
}

/// Places for `count` outputs.
///
/// # Safety
/// `ids` is null, or valid for writes of `count` numbers.
pub(crate) unsafe fn outputs<'a>(ids: *mut u64, count: usize) -> Result<&'a mut [u64], Failure> {
    if ids.is_null() {
        return if count == 0 { Ok(&mut []) } else { Err(Failure::null("ids")) };
    }
    if count as u64 > BATCH_MAX {
        return Err(Failure::invalid(format!(
            "one call draws at most {BATCH_MAX} ids, not {count}"
        )));
    }
    // SAFETY: as the caller says.
    Ok(unsafe { std::slice::from_raw_parts_mut(ids, count) })
}

/// A text from C.
///
/// # Safety
/// `text` is null or points to bytes that end with a zero.
#[inline]
pub(crate) unsafe fn text<'a>(text: *const c_char, name: &str) -> Result<&'a str, Failure> {
    if text.is_null() {
        return Err(Failure::null(name));
    }
    // SAFETY: as the caller says.
    let bytes = unsafe { CStr::from_ptr(text) };
    bytes.to_str().map_err(|_| Failure::invalid(format!("the {name} {bytes:?} is not UTF-8")))
}

/// A time limit; `None`: the client's own.
pub(crate) fn limit(timeout_ms: u32) -> Option<Duration> {
    (timeout_ms != LEAFD_TIMEOUT_DEFAULT).then(|| Duration::from_millis(u64::from(timeout_ms)))
}

/// Draws as many ids as there are places, and writes them once all are drawn.
pub(crate) fn fill(tag: &Tag, timeout_ms: u32, places: &mut [u64]) -> Result<(), Failure> {
    let count = places.len() as u64;
    let ids = match limit(timeout_ms) {
        Some(limit) => tag.next_batch_within(count, limit)?,
        None => tag.next_batch(count)?,
    };
    for (place, id) in places.iter_mut().zip(ids) {
        *place = id;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::last::leafd_error_message;

    #[test]
    fn a_panic_becomes_a_status_with_its_words() {
        let told = |status: LeafdStatus| {
            let mut why = [0_u8; 512];
            // SAFETY: the buffer has the given length.
            unsafe { leafd_error_message(why.as_mut_ptr().cast(), why.len()) };
            let why = CStr::from_bytes_until_nul(&why).unwrap().to_str().unwrap().to_owned();
            (status, why)
        };
        let (status, why) = told(call(|| panic!("a slot went {}", "missing")));
        assert_eq!(status, LeafdStatus::Panic);
        assert!(why.contains("a defect in libleafd: a slot went missing"), "{why}");
        // SAFETY: null is allowed.
        let (status, why) = told(unsafe { call_told(std::ptr::null_mut(), || panic!("again")) });
        assert_eq!(status, LeafdStatus::Panic);
        assert!(why.contains("again"), "{why}");
    }
}
