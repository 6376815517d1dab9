//! Tests signal handlers that interrupt a thread at any point, even while it draws an id.

use std::ffi::c_int;
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use leafd_client::Tag;

use crate::checks::{check_unique, client};
use crate::server::Server;

const TAKEN_MAX: usize = 1 << 16;

static TAG: OnceLock<Tag> = OnceLock::new();
/// Ids that the handler took. They are in an array, because the handler must not allocate.
static TAKEN: [AtomicU64; TAKEN_MAX] = [const { AtomicU64::new(0) }; TAKEN_MAX];
static TAKEN_COUNT: AtomicUsize = AtomicUsize::new(0);
static HANDLED: AtomicU64 = AtomicU64::new(0);

extern "C" fn take_some(_: c_int) {
    HANDLED.fetch_add(1, Ordering::Relaxed);
    for _ in 0..3 {
        if let Some(held) = TAG.get().and_then(Tag::take_for_loop) {
            let place = TAKEN_COUNT.fetch_add(1, Ordering::Relaxed);
            if place < TAKEN_MAX {
                TAKEN[place].store(held.id, Ordering::Relaxed);
            }
        }
    }
}

#[test]
fn a_handler_may_take_what_is_held_in_the_midst_of_a_draw() {
    const DRAWN: usize = 300_000;
    const TAKEN_MIN: usize = 100;
    let taken = || TAKEN_COUNT.load(Ordering::Relaxed).min(TAKEN_MAX);
    let end = Instant::now() + Duration::from_secs(5);
    let server = Server::start();
    let client = client(&server);
    let tag = TAG.get_or_init(|| client.tag("orders").unwrap());
    // SAFETY: the handler takes held ids, which touches only atomics and the clock. The rest is zeroed, so that an
    // interrupted system call ends with EINTR.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = take_some as extern "C" fn(c_int) as usize;
        assert_eq!(libc::sigaction(libc::SIGUSR2, &raw const action, ptr::null_mut()), 0);
    }
    let done = AtomicBool::new(false);
    let mut ids: Vec<u64> = thread::scope(|scope| {
        let drawing: Vec<_> = (0..2)
            .map(|_| {
                scope.spawn(|| {
                    // SAFETY: it takes nothing and can't fail.
                    let me = unsafe { libc::pthread_self() };
                    thread::scope(|inner| {
                        inner.spawn(|| {
                            while !done.load(Ordering::Relaxed)
                                && HANDLED.load(Ordering::Relaxed) < 20_000
                            {
                                // SAFETY: the thread waits for this one at the end of the scope.
                                unsafe { libc::pthread_kill(me, libc::SIGUSR2) };
                                thread::sleep(Duration::from_micros(50));
                            }
                        });
                        let mut ids = Vec::new();
                        // On a busy machine, the signals arrive late.
                        while ids.len() < DRAWN || (taken() < TAKEN_MIN && Instant::now() < end) {
                            ids.extend((0..1_000).map(|_| tag.next().unwrap()));
                        }
                        done.store(true, Ordering::Relaxed);
                        ids
                    })
                })
            })
            .collect();
        drawing.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    let (drawn, taken) = (ids.len(), taken());
    println!("{} signals, {taken} ids taken in handlers", HANDLED.load(Ordering::Relaxed));
    assert!(taken >= TAKEN_MIN, "the handler took only {taken}");
    ids.extend(TAKEN[..taken].iter().map(|id| id.load(Ordering::Relaxed)));
    assert_eq!(check_unique(ids), drawn + taken);
}
