//! Maps a tag's name to its cell, without a lock.
//!
//! A fork may stop a thread at any point in this code, and the child continues with the same table, so each bucket is a
//! list that grows only at its head, by one compare-and-swap. The entries hold no ids.

use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

use leafd_wire::tag::check_tag;

use crate::arena::{Arena, Cell};
use crate::error::{Error, Result};
use crate::slot::Slot;
use crate::supply::Supply;

/// The maximum number of tags that one client can use in its lifetime.
pub const TAGS_MAX: usize = 65_536;

const BUCKETS: usize = 1024;

/// The tags that a client has used.
pub(crate) struct Names {
    buckets: Box<[AtomicPtr<TagEntry>]>,
    count: AtomicUsize,
}

/// A tag that a client has used. It lives as long as the client.
pub(crate) struct TagEntry {
    name: Box<str>,
    hash: u64,
    cell: NonNull<Cell>,
    /// The latest supply, even after the other pointer to it was wiped.
    made: AtomicPtr<Supply>,
    next: *mut TagEntry,
}

// SAFETY: a visible entry does not change, and its cell holds only atomics.
unsafe impl Send for TagEntry {}
// SAFETY: as above.
unsafe impl Sync for TagEntry {}

// === impl Names ===

impl Names {
    pub(crate) fn new() -> Names {
        let buckets = (0..BUCKETS).map(|_| AtomicPtr::new(ptr::null_mut())).collect();
        Names { buckets, count: AtomicUsize::new(0) }
    }

    /// The entry of `name`, created if it is new.
    #[inline]
    pub(crate) fn get(&self, name: &str, arena: &Arena) -> Result<&TagEntry> {
        let hash = hash(name.as_bytes());
        match self.find(name, hash) {
            Some(entry) => Ok(entry),
            None => self.add(name, hash, arena),
        }
    }

    /// Every entry.
    pub(crate) fn all(&self) -> impl Iterator<Item = &TagEntry> {
        self.buckets.iter().flat_map(|bucket| chain(bucket.load(Ordering::Acquire)))
    }

    #[inline]
    fn find(&self, name: &str, hash: u64) -> Option<&TagEntry> {
        let bucket = &self.buckets[hash as usize % BUCKETS];
        chain(bucket.load(Ordering::Acquire))
            .find(|entry| entry.hash == hash && *entry.name == *name)
    }

    #[cold]
    fn add(&self, name: &str, hash: u64, arena: &Arena) -> Result<&TagEntry> {
        check_tag(name.as_bytes())
            .map_err(|error| Error::invalid(format!("{name:?} is not a valid tag: {error}")))?;
        if self.count.fetch_add(1, Ordering::Relaxed) >= TAGS_MAX {
            self.count.fetch_sub(1, Ordering::Relaxed);
            return Err(Error::invalid(format!(
                "one client uses at most {TAGS_MAX} tags; make another client for {name:?}"
            )));
        }
        let cell = arena.cell().map_err(|source| Error::Resources {
            what: "can't allocate wipe-on-fork memory for a tag",
            source,
        })?;
        let bucket = &self.buckets[hash as usize % BUCKETS];
        let mut entry = Box::new(TagEntry {
            name: name.into(),
            hash,
            cell,
            made: AtomicPtr::new(ptr::null_mut()),
            next: ptr::null_mut(),
        });
        loop {
            let head = bucket.load(Ordering::Acquire);
            // The search is repeated from the head that the swap expects, so no name is added twice.
            let same = |entry: &&TagEntry| entry.hash == hash && *entry.name == *name;
            if let Some(theirs) = chain(head).find(same) {
                // Another thread added it. This entry's cell stays unused.
                self.count.fetch_sub(1, Ordering::Relaxed);
                return Ok(theirs);
            }
            entry.next = head;
            let new = Box::into_raw(entry);
            match bucket.compare_exchange(head, new, Ordering::AcqRel, Ordering::Relaxed) {
                // SAFETY: entries in the table live as long as it does.
                Ok(_) => return Ok(unsafe { &*new }),
                // SAFETY: it was not added, so it belongs to this thread alone.
                Err(_) => entry = unsafe { Box::from_raw(new) },
            }
        }
    }
}

impl Drop for Names {
    fn drop(&mut self) {
        for bucket in &mut self.buckets {
            let mut entry = *bucket.get_mut();
            while !entry.is_null() {
                // SAFETY: each was made by `Box::into_raw` and is freed once, by the sole owner.
                let taken = unsafe { Box::from_raw(entry) };
                entry = taken.next;
            }
        }
    }
}

// === impl TagEntry ===

impl TagEntry {
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    #[inline]
    pub(crate) fn cell(&self) -> &Cell {
        // SAFETY: the cell is the arena's, which the client drops after its entries; it is zero or
        // written through atomics only.
        unsafe { self.cell.as_ref() }
    }

    #[inline]
    pub(crate) fn slot(&self) -> &Slot {
        &self.cell().slot
    }

    /// Frees the supply, unless it is a parent's.
    pub(crate) fn drop_supply(&self) {
        let supply = self.cell().supply.swap(ptr::null_mut(), Ordering::AcqRel);
        if supply.is_null() {
            crate::inherited::keep(self.made.load(Ordering::Acquire));
        } else {
            // SAFETY: made by `Box::into_raw`; the core is being dropped, so nothing else uses it.
            drop(unsafe { Box::from_raw(supply) });
        }
    }

    /// The process's supply, created on first use, even in a forked child. It is only for clients that hold runs.
    pub(crate) fn supply(&self) -> &Supply {
        let place = &self.cell().supply;
        let found = place.load(Ordering::Acquire);
        // SAFETY: null, or made by `Box::into_raw` below and freed with the core only.
        if let Some(supply) = unsafe { found.as_ref() } {
            return supply;
        }
        let new = Box::into_raw(Box::new(Supply::new()));
        match place.compare_exchange(found, new, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => {
                crate::inherited::keep(self.made.swap(new, Ordering::AcqRel));
                // SAFETY: just made; freed with the core only.
                unsafe { &*new }
            }
            // SAFETY: no other thread has seen `new`; `theirs` is this process's.
            Err(theirs) => unsafe {
                drop(Box::from_raw(new));
                &*theirs
            },
        }
    }
}

#[inline]
fn chain<'a>(head: *mut TagEntry) -> impl Iterator<Item = &'a TagEntry> {
    let mut next = head.cast_const();
    std::iter::from_fn(move || {
        // SAFETY: heads and links are null or point to entries that live as long as their table,
        // which callers hold.
        let entry = unsafe { next.as_ref() }?;
        next = entry.next;
        Some(entry)
    })
}

/// A fast hash of eight bytes at a time. The names are the process's own, so an attacker gains
/// nothing from collisions.
#[inline]
fn hash(bytes: &[u8]) -> u64 {
    const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
    let (words, rest) = bytes.as_chunks::<8>();
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    let mix = |hash: u64, word: [u8; 8]| {
        (hash.rotate_left(23) ^ u64::from_le_bytes(word)).wrapping_mul(ODD)
    };
    let hash = words.iter().fold(bytes.len() as u64, |hash, word| mix(hash, *word));
    let hash = mix(hash, last);
    hash ^ (hash >> 32)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::collections::HashSet;

    const NAMES: usize = if cfg!(miri) { 20 } else { 2000 };

    #[test]
    fn a_name_has_one_cell_however_many_threads_ask() {
        let arena = Arena::new().unwrap();
        let names = Names::new();
        let cells: Vec<HashSet<usize>> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4)
                .map(|_| {
                    scope.spawn(|| {
                        (0..NAMES)
                            .map(|index| {
                                let entry = names.get(&format!("tag-{index}"), &arena).unwrap();
                                assert_eq!(entry.name(), format!("tag-{index}"));
                                std::ptr::from_ref(entry.cell()).addr()
                            })
                            .collect()
                    })
                })
                .collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert!(cells.iter().all(|of_thread| of_thread.len() == NAMES));
        assert!(cells.windows(2).all(|pair| pair[0] == pair[1]));
        assert_eq!(names.all().count(), NAMES);
    }

    #[test]
    fn impossible_names_are_refused() {
        let arena = Arena::new().unwrap();
        let names = Names::new();
        for name in ["", "a\nb", &"x".repeat(129)] {
            assert!(names.get(name, &arena).is_err(), "{name:?}");
        }
    }
}
