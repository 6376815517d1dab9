//! Tags that a client is repeatedly asked for by name, found by the address of the name.
//!
//! Measuring, checking and hashing a name takes twice as long as the id. Most programs pass the same literal
//! each time. So the address tells where to look, and then the characters are compared.

use std::ffi::{CStr, CString, c_char};
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use leafd_client::{Client, Tag};

const PLACES: usize = 64;

/// A client, and up to [`PLACES`] of its tags.
pub(crate) struct Known {
    pub(crate) client: Client,
    /// Each is filled once: null, or made by `Box::into_raw` and freed with this.
    places: [AtomicPtr<Named>; PLACES],
}

struct Named {
    name: CString,
    tag: Tag,
}

impl Known {
    pub(crate) fn new(client: Client) -> Known {
        Known { client, places: [const { AtomicPtr::new(ptr::null_mut()) }; PLACES] }
    }

    /// The tag of this name, if it was the first one remembered for this address.
    ///
    /// # Safety
    /// `name` is null or points to bytes that end with a zero.
    #[inline]
    pub(crate) unsafe fn find(&self, name: *const c_char) -> Option<&Tag> {
        if name.is_null() {
            return None;
        }
        let named = self.place(name).load(Ordering::Acquire);
        // SAFETY: places are filled once, and freed with `self`; both texts end with a zero.
        unsafe {
            let named = named.as_ref()?;
            (libc::strcmp(named.name.as_ptr(), name) == 0).then_some(&named.tag)
        }
    }

    /// Remembers a tag that wasn't found, if there is room.
    #[cold]
    pub(crate) fn remember(&self, name: &CStr, tag: Tag) {
        let place = self.place(name.as_ptr());
        if !place.load(Ordering::Relaxed).is_null() {
            return;
        }
        let named = Box::into_raw(Box::new(Named { name: name.to_owned(), tag }));
        let swap =
            place.compare_exchange(ptr::null_mut(), named, Ordering::Release, Ordering::Relaxed);
        if swap.is_err() {
            // SAFETY: it was not added, so it belongs to this thread alone.
            drop(unsafe { Box::from_raw(named) });
        }
    }

    #[inline]
    fn place(&self, name: *const c_char) -> &AtomicPtr<Named> {
        let mixed = (name.addr() as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        &self.places[(mixed >> 58) as usize % PLACES]
    }
}

impl Drop for Known {
    fn drop(&mut self) {
        for place in &mut self.places {
            let named = *place.get_mut();
            if !named.is_null() {
                // SAFETY: made by `Box::into_raw`, and freed once, by the sole owner.
                drop(unsafe { Box::from_raw(named) });
            }
        }
    }
}
