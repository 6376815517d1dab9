//! Gives memory back to the system: what was freed, and the code that only a start runs.
//!
//! The allocator keeps freed memory below its highest pages until it is told to give it back. That takes some
//! milliseconds. So it is told only after much was freed, and not at once.

use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::rc::Rc;
use std::time::Duration;
use std::{ptr, slice};

use tokio::sync::Notify;

/// How much must be freed before the allocator is told.
const TRIM_BYTES: u64 = 2 << 20;

/// How long to wait for more.
const TRIM_AFTER: Duration = Duration::from_secs(2);

/// What was freed since the allocator was last told, on the one thread that answers.
#[derive(Default)]
struct LetGo {
    bytes: Cell<u64>,
    much: Notify,
}

thread_local! {
    static LET_GO: Rc<LetGo> = Rc::default();
}

/// Notes that this many bytes were freed.
pub fn let_go(bytes: u64) {
    LET_GO.with(|let_go| {
        let_go.bytes.set(let_go.bytes.get().saturating_add(bytes));
        if let_go.bytes.get() >= TRIM_BYTES {
            let_go.much.notify_one();
        }
    });
}

/// Gives memory back to the system after a burst, until dropped.
pub async fn give_back() {
    let let_go = LET_GO.with(Rc::clone);
    loop {
        let_go.much.notified().await;
        tokio::time::sleep(TRIM_AFTER).await;
        let_go.bytes.set(0);
        trim();
    }
}

/// Unmaps the program's code and constants, once it has started. The system maps them again, from its cache, where
/// they are used. So memory that only the start has used, about half of them, is freed.
#[expect(unsafe_code, reason = "the program's own mapping is known to the C library alone")]
pub fn leave_start_behind() {
    /// Unmaps the read-only segments of the first object, which is the program itself, and ends the iteration.
    ///
    /// # Safety
    /// Only `dl_iterate_phdr` may call this.
    unsafe extern "C" fn unmap(object: *mut libc::dl_phdr_info, _: usize, _: *mut c_void) -> c_int {
        // SAFETY: the C library passes an object that is valid for the call, with as many headers as it says.
        let (object, headers) = unsafe {
            let headers = slice::from_raw_parts((*object).dlpi_phdr, (*object).dlpi_phnum.into());
            (&*object, headers)
        };
        // SAFETY: no memory is passed.
        let page = usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4_096);
        for header in headers {
            // Data that the loader has written to, such as relocated tables, is in segments that can be written.
            if header.p_type != libc::PT_LOAD || header.p_flags & libc::PF_W != 0 {
                continue;
            }
            let start = (object.dlpi_addr + header.p_vaddr) as usize;
            let end = start + header.p_memsz as usize;
            let (first, last) = (start.next_multiple_of(page), end / page * page);
            if first < last {
                // SAFETY: these are whole pages of a mapping that nobody writes to, so what is read next comes from
                // the same file. It does no harm if the system refuses.
                unsafe { libc::madvise(first as *mut c_void, last - first, libc::MADV_DONTNEED) };
            }
        }
        1
    }
    // SAFETY: the callback keeps nothing of what it gets.
    unsafe { libc::dl_iterate_phdr(Some(unmap), ptr::null_mut()) };
}

#[expect(unsafe_code, reason = "libc has no safe form of it")]
fn trim() {
    #[cfg(target_env = "gnu")]
    // SAFETY: glibc's function takes the allocator's own locks, and touches no memory in use.
    unsafe {
        libc::malloc_trim(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_goes_on_without_its_start() {
        let sum = || (0..100u64).map(|number| number.to_string().len()).sum::<usize>();
        let before = sum();
        leave_start_behind();
        assert_eq!(sum(), before);
        leave_start_behind();
        assert_eq!(std::thread::spawn(sum).join().unwrap(), before);
    }
}
