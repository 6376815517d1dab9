//! Tests with a fake interpreter that has a lock: a thread's waits release it, and a signal handler may end them.

use std::cell::RefCell;
use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use leafd_client::{Client, Error, Interpreter, set_interpreter};

use crate::checks::{check_unique, check_within, client, direct, until};
use crate::server::Server;

/// The interpreter's lock, reduced to what the tests need: whether the watched thread holds it.
static LOCKED: AtomicBool = AtomicBool::new(true);
static CHECKS: AtomicU32 = AtomicU32::new(0);
/// The number of the check at which the call ends.
static END_AT: AtomicU32 = AtomicU32::new(0);
/// There is only one interpreter, so tests take turns.
static TURN: Mutex<()> = Mutex::new(());

thread_local! {
    /// The code that handlers run.
    static HANDLER: RefCell<Option<Box<dyn FnMut()>>> = const { RefCell::new(None) };
}

extern "C" fn leave() -> *mut c_void {
    assert!(LOCKED.swap(false, Ordering::SeqCst), "the lock is released twice");
    ptr::dangling_mut()
}

extern "C" fn enter(left: *mut c_void) {
    assert_eq!(left, ptr::dangling_mut());
    assert!(!LOCKED.swap(true, Ordering::SeqCst), "the lock is taken twice");
}

extern "C" fn check() -> c_int {
    assert!(LOCKED.load(Ordering::SeqCst), "handlers run without the lock");
    // The handler is removed while it runs, because its own waits may call this function.
    if let Some(mut act) = HANDLER.take() {
        act();
        HANDLER.set(Some(act));
    }
    let checks = CHECKS.fetch_add(1, Ordering::SeqCst) + 1;
    c_int::from(checks == END_AT.load(Ordering::SeqCst))
}

extern "C" fn handle(_: c_int) {}

/// Runs a call in a watched thread that gets a signal every 20 ms, and ends the call at the `end_at`-th signal.
fn interrupted<T: Send>(end_at: u32, call: impl FnOnce() -> T + Send) -> T {
    let _turn = TURN.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    // SAFETY: the handler does nothing. The rest of the structure is zeroed, so that calls end with EINTR.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handle as extern "C" fn(c_int) as usize;
        assert_eq!(libc::sigaction(libc::SIGUSR1, &raw const action, ptr::null_mut()), 0);
    }
    CHECKS.store(0, Ordering::SeqCst);
    END_AT.store(end_at, Ordering::SeqCst);
    let (named, name) = mpsc::channel();
    thread::scope(|scope| {
        let caller = scope.spawn(move || {
            // SAFETY: it takes nothing and can't fail; the functions only touch atomics and thread locals.
            unsafe {
                named.send(libc::pthread_self()).unwrap();
                set_interpreter(Some(Interpreter { leave, enter, check }));
            }
            let outcome = call();
            assert!(LOCKED.load(Ordering::SeqCst), "the call came back without the lock");
            outcome
        });
        let thread = name.recv().unwrap();
        while !caller.is_finished() {
            // SAFETY: the thread has not been joined yet.
            unsafe { libc::pthread_kill(thread, libc::SIGUSR1) };
            thread::sleep(Duration::from_millis(20));
        }
        let outcome = caller.join().unwrap();
        let checks = CHECKS.load(Ordering::SeqCst);
        assert!(if end_at > 0 { checks == end_at } else { checks > 2 }, "{checks} checks");
        outcome
    })
}

#[test]
fn a_handler_may_end_every_wait() {
    let mut server = Server::start();
    let client = client(&server);
    client.next("orders").unwrap();
    // The daemon is missing, or it doesn't answer.
    server.stop();
    let long = Duration::from_secs(30);
    let absent = Client::builder().socket(server.path()).wait(long).build().unwrap();
    let error = interrupted(3, || absent.next("orders")).unwrap_err();
    assert!(matches!(error, Error::Interrupted) && !error.is_retryable(), "{error:?}");
    server.restart();
    for form in 0..4 {
        let begun = Instant::now();
        let outcome = interrupted(3, || match form {
            0 => client.within(long).next("silent"),
            1 => client.within(long).next_direct("silent"),
            2 => client.within(long).next_batch("silent", 10).map(|ids| ids.remaining()),
            _ => client.within(long).next_batch("silent", 2_500_000).map(|ids| ids.remaining()),
        });
        assert!(matches!(outcome, Err(Error::Interrupted)), "{form}: {outcome:?}");
        check_within(begun.elapsed(), 0, 10_000);
    }
    // The ended calls have left nothing behind.
    assert_eq!(check_unique((0..10).map(|_| client.next_direct("orders").unwrap())), 10);
}

#[test]
fn a_handler_may_end_the_wait_for_another_thread() {
    let server = Server::start();
    let client = client(&server);
    let long = Duration::from_secs(3);
    thread::scope(|scope| {
        // One thread reads and fetches, and the watched thread waits for it.
        let other = scope.spawn(|| client.within(long).next("silent").unwrap_err());
        thread::sleep(Duration::from_millis(100));
        for direct in [false, true] {
            let begun = Instant::now();
            let outcome = interrupted(3, || match direct {
                false => client.within(long).next("silent"),
                true => client.within(long).next_direct("silent"),
            });
            assert!(matches!(outcome, Err(Error::Interrupted)), "{outcome:?}");
            check_within(begun.elapsed(), 0, 2_500);
        }
        assert!(matches!(other.join().unwrap(), Error::Timeout { .. }));
    });
}

#[test]
fn calls_go_on_after_signals_whose_handlers_draw_as_well() {
    let server = Server::start();
    let client = client(&server);
    let for_handler = client.clone();
    let (drew, drawn) = mpsc::channel();
    let ids = interrupted(0, move || {
        // Draw an id of the tag for which the thread waits, and of another tag.
        let act = move || {
            drew.send(for_handler.next("slow").unwrap()).unwrap();
            drew.send(for_handler.next_direct("orders").unwrap()).unwrap();
        };
        HANDLER.set(Some(Box::new(act)));
        let mut ids = vec![client.next("slow").unwrap(), client.next_direct("slow").unwrap()];
        ids.extend(client.next_batch("slow", 5).unwrap());
        HANDLER.set(None);
        ids.extend(drawn);
        ids
    });
    assert_eq!(check_unique(ids.iter().copied()), ids.len());
}

#[test]
fn another_thread_reads_while_one_that_has_its_answer_runs_handlers() {
    let server = Server::start();
    let (shared, other) = (direct(&server), direct(&server));
    let client = &shared;
    thread::scope(|scope| {
        let reads = scope.spawn(|| client.next("pair-read").unwrap());
        until(|| server.requests_for("pair-read") == 1);
        let (has_it, it) = mpsc::channel();
        let sleeps = scope.spawn(move || {
            let id = client.next("pair-sleep").unwrap();
            has_it.send(()).unwrap();
            id
        });
        until(|| server.requests_for("pair-sleep") == 1);
        // A single read receives this thread's answer and that of the reading thread, which then leaves. This thread
        // then runs the handler, and the sleeping thread gets its answer only if some thread reads.
        let ids = interrupted(0, || {
            let (done, did) = mpsc::channel();
            let mut first = Some(done);
            let act = move || {
                if let Some(done) = first.take() {
                    let id = other.next("pair-sleep").unwrap();
                    done.send((id, it.recv_timeout(Duration::from_secs(10)))).unwrap();
                }
            };
            HANDLER.set(Some(Box::new(act)));
            let ids = [client.next("pair-read").unwrap(), client.next("slow").unwrap()];
            HANDLER.set(None);
            let (id, meanwhile) = did.recv().unwrap();
            meanwhile.expect("a thread reads while handlers run");
            [ids[0], ids[1], id]
        });
        let theirs = [reads.join().unwrap(), sleeps.join().unwrap()];
        assert_eq!(check_unique(theirs.into_iter().chain(ids)), 5);
    });
}
