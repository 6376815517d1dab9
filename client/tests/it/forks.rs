//! Tests forks at any point: parent, children and grandchildren never share an id.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::FromRawFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use leafd_client::Client;

use crate::checks::{check_unique, client};
use crate::server::Server;

/// A child that hangs (for example, on a lock of its parent) is killed after this many seconds.
const CHILD_SECONDS_MAX: u32 = 30;

pub struct Child {
    pid: libc::pid_t,
    ids: File,
}

/// Forks. The child sends the ids that `draw` returns, and exits.
pub fn fork(draw: impl FnOnce() -> Vec<u64>) -> Child {
    // SAFETY: the child continues with its copy of all memory. It exits with _exit, so it runs none of the parent's
    // destructors.
    spawn(|| unsafe { libc::fork() }, draw)
}

/// Like [`fork`], but without the C library's knowledge, so no fork handlers run. Only for processes with one thread.
fn fork_bare(draw: impl FnOnce() -> Vec<u64>) -> Child {
    let make = || {
        // SAFETY: as in `fork`. Without a stack of its own, the child continues with a copy of this one.
        unsafe { libc::syscall(libc::SYS_clone, libc::SIGCHLD, 0, 0, 0, 0) as libc::pid_t }
    };
    spawn(make, draw)
}

fn spawn(make: impl FnOnce() -> libc::pid_t, draw: impl FnOnce() -> Vec<u64>) -> Child {
    let mut ends = [0; 2];
    // SAFETY: the array takes two descriptors.
    assert_eq!(unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) }, 0);
    let pid = make();
    assert!(pid >= 0);
    // SAFETY: the pipe's ends are new, and each side takes one.
    let mut end = unsafe { File::from_raw_fd(ends[usize::from(pid == 0)]) };
    if pid == 0 {
        // SAFETY: no memory is passed.
        unsafe { libc::alarm(CHILD_SECONDS_MAX) };
        let drawn = catch_unwind(AssertUnwindSafe(draw));
        let sent = drawn.map(|ids| {
            let bytes: Vec<u8> = ids.into_iter().flat_map(u64::to_le_bytes).collect();
            end.write_all(&bytes)
        });
        // SAFETY: the child ends here.
        unsafe { libc::_exit(if matches!(sent, Ok(Ok(()))) { 0 } else { 1 }) }
    }
    // SAFETY: the child's end is not used here.
    unsafe { libc::close(ends[1]) };
    Child { pid, ids: end }
}

impl Child {
    pub fn ids(mut self) -> Vec<u64> {
        let mut bytes = Vec::new();
        self.ids.read_to_end(&mut bytes).unwrap();
        let mut status = 0;
        // SAFETY: the status is valid for writes.
        assert_eq!(unsafe { libc::waitpid(self.pid, &raw mut status, 0) }, self.pid);
        assert_eq!(status, 0, "the child failed or hung");
        let (ids, rest) = bytes.as_chunks::<8>();
        assert!(rest.is_empty());
        ids.iter().map(|id| u64::from_le_bytes(*id)).collect()
    }
}

/// Forks in the middle of a run without the C library's knowledge. The process has no other threads, because nobody
/// would release their locks.
fn check_bare_forks() {
    let server = Server::start();
    let client = client(&server);
    let tag = client.tag("orders").unwrap();
    let ids = in_child(|| {
        let mut ids = Vec::new();
        for _ in 0..10 {
            ids.extend((0..3).flat_map(|_| [client.next("orders").unwrap(), tag.next().unwrap()]));
            let child = fork_bare(|| {
                let mut ids: Vec<u64> = (0..5).map(|_| tag.next().unwrap()).collect();
                ids.extend((0..3).map(|_| tag.clone().direct().next().unwrap()));
                ids.extend(draw_some(&client));
                ids
            });
            ids.extend(draw_some(&client));
            ids.extend(child.ids());
        }
        ids
    });
    check_unique(ids);
}

/// Runs `draw` in a child and returns what it drew.
pub fn in_child(draw: impl FnOnce() -> Vec<u64>) -> Vec<u64> {
    fork(draw).ids()
}

fn draw_some(client: &Client) -> Vec<u64> {
    let tag = client.tag("orders").unwrap();
    let mut ids: Vec<u64> = (0..300).map(|_| tag.next().unwrap()).collect();
    ids.extend((0..20).map(|_| client.next("short").unwrap()));
    ids.extend((0..5).map(|_| client.next("strict").unwrap()));
    ids.extend((0..5).map(|_| client.next_direct("orders").unwrap()));
    ids.extend(client.next_batch("orders", 10).unwrap());
    ids
}

/// Forks in the middle of a run, after which all processes continue.
fn check_forks_mid_run() {
    let server = Server::start();
    let client = client(&server);
    let mut ids = Vec::new();
    for _ in 0..20 {
        ids.extend((0..7).map(|_| client.next("orders").unwrap()));
        let child = fork(|| {
            let mut ids = draw_some(&client);
            ids.extend(in_child(|| draw_some(&client)));
            ids.extend(draw_some(&client));
            ids
        });
        ids.extend(draw_some(&client));
        ids.extend(child.ids());
    }
    check_unique(ids);
}

/// Forks while other threads hold ids, wait for ids, and hold the client's locks.
fn check_forks_amid_threads() {
    let server = Server::start();
    let client = client(&server);
    let stop = AtomicBool::new(false);
    let mut ids = Vec::new();
    thread::scope(|scope| {
        let mut drawing = Vec::new();
        for thread in 0..4 {
            let (client, stop) = (&client, &stop);
            drawing.push(scope.spawn(move || {
                let mut ids = Vec::new();
                while !stop.load(Ordering::Relaxed) && ids.len() < 2_000_000 {
                    match thread {
                        0 => ids.push(client.next_direct("orders").unwrap()),
                        1 => ids.push(client.next("short").unwrap()),
                        2 => ids.extend(client.next_batch("pieces", 10).unwrap()),
                        _ => ids.push(client.next("orders").unwrap()),
                    }
                }
                ids
            }));
        }
        for _ in 0..60 {
            let child = fork(|| draw_some(&client));
            ids.extend(draw_some(&client));
            ids.extend(child.ids());
        }
        stop.store(true, Ordering::Relaxed);
        for thread in drawing {
            ids.extend(thread.join().unwrap());
        }
    });
    check_unique(ids);
}

#[test]
fn a_fork_in_the_middle_of_a_run_shares_no_id() {
    check_forks_mid_run();
}

#[test]
fn a_fork_amid_busy_threads_shares_no_id_and_no_lock() {
    check_forks_amid_threads();
}

#[test]
fn a_fork_by_a_bare_system_call_shares_no_id() {
    check_bare_forks();
}

#[test]
fn a_pipeline_belongs_to_the_process_that_filled_it() {
    let server = Server::start();
    let client = client(&server);
    let mut pipeline = client.pipeline();
    for _ in 0..10 {
        pipeline.push("orders", 1).unwrap();
    }
    let pipeline = std::cell::RefCell::new(pipeline);
    let mut ids = in_child(|| {
        let mut pipeline = pipeline.borrow_mut();
        for _ in 0..10 {
            assert!(pipeline.answer().unwrap().ids.is_err(), "the answer is the parent's");
        }
        pipeline.push("orders", 3).unwrap();
        pipeline.answer().unwrap().ids.unwrap().collect()
    });
    let mut pipeline = pipeline.into_inner();
    ids.extend(std::iter::from_fn(|| pipeline.answer()).flat_map(|answer| answer.ids.unwrap()));
    assert_eq!(check_unique(ids), 13);
}

#[test]
fn where_the_kernel_does_not_wipe_no_ids_are_held() {
    // The filter applies only to this thread, and to those that it starts.
    thread::spawn(|| {
        answer_for_the_kernel(libc::EPERM, Some(libc::MADV_WIPEONFORK));
        // SAFETY: the advice is rejected before it is evaluated.
        let advised = unsafe { libc::madvise(std::ptr::null_mut(), 4096, libc::MADV_WIPEONFORK) };
        assert_eq!(advised, -1);
        assert_eq!(std::io::Error::last_os_error().raw_os_error(), Some(libc::EPERM));
        check_forks_mid_run();
        check_forks_amid_threads();
        check_bare_forks();
    })
    .join()
    .unwrap();
}

/// This is what happens when qemu emulates another architecture.
#[test]
fn where_the_kernel_only_says_that_it_wipes_no_ids_are_held() {
    thread::spawn(|| {
        answer_for_the_kernel(0, None);
        // SAFETY: the advice is not evaluated.
        let advised = unsafe { libc::madvise(std::ptr::null_mut(), 1, libc::MADV_WIPEONFORK) };
        assert_eq!(advised, 0);
        check_forks_mid_run();
        check_forks_amid_threads();
        check_bare_forks();
    })
    .join()
    .unwrap();
}

/// Makes madvise do nothing in this thread except return this error (0: success), for one advice or for all.
fn answer_for_the_kernel(error: i32, to: Option<i32>) {
    const LOAD: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
    const JUMP_IF_EQUAL: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
    const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;
    let step = |code, k, jt, jf| libc::sock_filter { code, jt, jf, k };
    // Offsets in seccomp_data: the call's number at 0, the third argument's low half at 32.
    let low_half = if cfg!(target_endian = "little") { 32 } else { 36 };
    let mut steps = [
        step(LOAD, 0, 0, 0),
        step(JUMP_IF_EQUAL, libc::SYS_madvise as u32, 0, 3),
        step(LOAD, low_half, 0, 0),
        step(JUMP_IF_EQUAL, to.unwrap_or(0) as u32, 0, u8::from(to.is_some())),
        step(RETURN, libc::SECCOMP_RET_ERRNO | error as u32, 0, 0),
        step(RETURN, libc::SECCOMP_RET_ALLOW, 0, 0),
    ];
    let program = libc::sock_fprog { len: steps.len() as u16, filter: steps.as_mut_ptr() };
    // SAFETY: the program and its steps are valid while the kernel copies them.
    unsafe {
        assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
        let filter = libc::SECCOMP_MODE_FILTER;
        assert_eq!(libc::prctl(libc::PR_SET_SECCOMP, filter, &raw const program), 0);
    }
}
