//! Returns freed memory to the system.
//!
//! The allocator keeps freed memory below its highest pages until it is asked to return it, which takes some
//! milliseconds. This asks only after much was freed, and after a delay.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use tokio::sync::Notify;

/// How much must be freed before the allocator is asked.
const TRIM_BYTES: u64 = 2 << 20;

/// How long to wait for more.
const TRIM_AFTER: Duration = Duration::from_secs(2);

/// The memory that a thread has freed since it last asked the allocator.
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

/// Returns memory to the system after a burst, until dropped.
pub async fn give_back() {
    let let_go = LET_GO.with(Rc::clone);
    loop {
        let_go.much.notified().await;
        tokio::time::sleep(TRIM_AFTER).await;
        let_go.bytes.set(0);
        trim();
    }
}

#[cfg(target_env = "gnu")]
#[expect(unsafe_code, reason = "libc has no safe form of it")]
fn trim() {
    // SAFETY: glibc's function takes the allocator's own locks, and touches no memory in use.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// musl's allocator can't be asked: it returns memory when it is freed.
#[cfg(not(target_env = "gnu"))]
fn trim() {}
