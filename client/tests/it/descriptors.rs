//! Tests descriptors: high numbers work, and a child touches none of its parent's descriptors.

use std::fs::{self, File};
use std::mem;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::checks::{check_unique, client};
use crate::forks::in_child;
use crate::server::Server;

/// This process's descriptors that are connected to the socket at `path`.
fn connected_to(path: &Path) -> Vec<RawFd> {
    let mut found: Vec<RawFd> = fs::read_dir("/proc/self/fd")
        .unwrap()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter(|&descriptor| {
            // SAFETY: all zeros is a valid address; address and length are valid for writes.
            let (outcome, address) = unsafe {
                let mut address: libc::sockaddr_un = mem::zeroed();
                let mut length = mem::size_of_val(&address) as libc::socklen_t;
                let outcome =
                    libc::getpeername(descriptor, (&raw mut address).cast(), &raw mut length);
                (outcome, address)
            };
            let name: Vec<u8> =
                address.sun_path.iter().map(|&c| c as u8).take_while(|&c| c != 0).collect();
            outcome == 0 && name == path.as_os_str().as_bytes()
        })
        .collect();
    found.sort_unstable();
    found
}

#[test]
fn a_child_has_its_own_connection_and_leaves_its_parents_alone() {
    let server = Server::start();
    let client = client(&server);
    let first = client.next_direct("orders").unwrap();
    assert_eq!(connected_to(server.path()).len(), 1);
    let mut ids = in_child(|| {
        let ids = vec![client.next("orders").unwrap()];
        assert_eq!(connected_to(server.path()).len(), 2, "its own, and its copy of the parent's");
        ids
    });
    let other = crate::checks::client(&server);
    ids.push(other.next_direct("orders").unwrap());
    ids.extend(in_child(|| {
        drop(other);
        assert_eq!(connected_to(server.path()).len(), 2, "dropping a client closes no copy");
        Vec::new()
    }));
    // The parent's connection still works.
    ids.extend([first, client.next_direct("orders").unwrap()]);
    check_unique(ids);
    assert_eq!(
        server.shared().connections_made.load(std::sync::atomic::Ordering::SeqCst),
        3,
        "one for each of the parent's clients, one for the first child"
    );
}

#[test]
fn a_child_never_closes_a_number_that_it_uses_again() {
    let server = Server::start();
    let client = client(&server);
    let first = client.next_direct("orders").unwrap();
    let number = connected_to(server.path())[0];
    let mut ids = in_child(|| {
        let file = File::open("/dev/null").unwrap();
        // SAFETY: the child has one thread, and the number is the inherited socket's.
        assert_eq!(unsafe { libc::dup2(file.as_raw_fd(), number) }, number);
        let ids = vec![client.next("orders").unwrap()];
        // SAFETY: no memory is passed.
        assert!(unsafe { libc::fcntl(number, libc::F_GETFD) } >= 0, "{number} was closed");
        assert_eq!(
            fs::read_link(format!("/proc/self/fd/{number}")).unwrap().to_str(),
            Some("/dev/null")
        );
        ids
    });
    // The child doesn't close the descriptor either if it is now another socket.
    ids.extend(in_child(|| {
        let (mine, _other) = std::os::unix::net::UnixStream::pair().unwrap();
        // SAFETY: as above.
        assert_eq!(unsafe { libc::dup2(mine.as_raw_fd(), number) }, number);
        let ids = vec![client.next("orders").unwrap()];
        // SAFETY: no memory is passed.
        assert!(unsafe { libc::fcntl(number, libc::F_GETFD) } >= 0, "{number} was closed");
        ids
    }));
    ids.push(first);
    assert_eq!(check_unique(ids), 3);
}

#[test]
fn descriptors_above_1024_work() {
    // SAFETY: the limits are valid for reads and writes.
    unsafe {
        let mut limits: libc::rlimit = mem::zeroed();
        assert_eq!(libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limits), 0);
        assert!(limits.rlim_max > 2048, "this test needs more than 2,048 descriptors");
        limits.rlim_cur = limits.rlim_cur.max(limits.rlim_max.min(65_536));
        assert_eq!(libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limits), 0);
    }
    let server = Server::start();
    let files: Vec<File> = (0..1100).map(|_| File::open("/dev/null").unwrap()).collect();
    let client = client(&server);
    let mut ids: Vec<u64> = (0..100).map(|_| client.next_direct("orders").unwrap()).collect();
    ids.push(client.next("slow").unwrap());
    assert!(connected_to(server.path())[0] > 1024);
    check_unique(ids);
    drop(files);
}
