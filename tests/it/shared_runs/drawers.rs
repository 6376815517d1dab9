//! Processes that draw from one shared run by the real client, and some beside it directly and from held runs, killed and
//! stopped at random, with daemons that are: no id comes twice, and whoever draws after another has drawn in the same way
//! gets a larger one (held runs aside).

use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use leafd_client::Client;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::pages::{map_bytes, share};
use super::sharing;
use crate::host::{Host, die_with_parent, eventually};
use crate::seed::seeds;

/// Names the file that the processes write down in what they draw.
const BOARD: &str = "LEAFD_TEST_SHARED_BOARD";
const SOCKET: &str = "LEAFD_TEST_SHARED_FROM";
/// How many ids a process draws; none: until it is killed.
const COUNT: &str = "LEAFD_TEST_SHARED_COUNT";
/// How many ids all processes draw in the long test of order, unless the default is enough.
const IDS: &str = "LEAFD_TEST_SHARED_IDS";
const IDS_DEFAULT: u64 = 400_000;

const PROCESSES: u64 = 4;

/// How many ids can be written down: more than are drawn, with room for those that are skipped.
fn board_ids(drawn: u64) -> u64 {
    (drawn * 2 + 20_000_000).next_multiple_of(64)
}

/// A way to draw that has an order of its own, or none.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Shared,
    Direct,
    Held,
}

const WAYS: [Way; 3] = [Way::Shared, Way::Direct, Way::Held];

/// What all processes write down: for each way the largest id that anybody has, and how many were drawn; and a bit for
/// each id.
struct Board {
    words: &'static [AtomicU64],
    file: OwnedFd,
}

const HEAD_WORDS: usize = 512;

impl Board {
    fn new(path: &Path, ids: u64) -> Board {
        let file = File::options().read(true).write(true).create(true).truncate(false).open(path);
        let file = file.unwrap();
        let words = HEAD_WORDS + (ids / 64) as usize;
        if file.metadata().unwrap().len() == 0 {
            file.set_len(words as u64 * 8).unwrap();
        }
        let words = (file.metadata().unwrap().len() / 8) as usize;
        let file = OwnedFd::from(file);
        let place = map_bytes(&file, words * 8, libc::PROT_READ | libc::PROT_WRITE).unwrap();
        // SAFETY: mapped for as long as the process runs, with so many words, at a page's boundary.
        let words = unsafe { std::slice::from_raw_parts(place.cast::<AtomicU64>(), words) };
        Board { words, file }
    }

    /// Draws one id and writes it down.
    #[track_caller]
    fn draw(&self, way: Way, draw: impl FnOnce() -> leafd_client::Result<u64>) -> bool {
        let (largest, drawn) = (&self.words[way as usize * 2], &self.words[way as usize * 2 + 1]);
        let before = largest.load(Ordering::SeqCst);
        let Ok(id) = draw() else { return false };
        assert!(way == Way::Held || id > before, "{id} is drawn after {before} was");
        let (word, bit) = (HEAD_WORDS + (id / 64) as usize, 1 << (id % 64));
        assert!(word < self.words.len(), "{id}: too many are skipped");
        assert_eq!(self.words[word].fetch_or(bit, Ordering::SeqCst) & bit, 0, "{id} comes twice");
        largest.fetch_max(id, Ordering::SeqCst);
        drawn.fetch_add(1, Ordering::SeqCst);
        true
    }

    fn largest(&self, way: Way) -> u64 {
        self.words[way as usize * 2].load(Ordering::SeqCst)
    }

    fn drawn(&self, way: Way) -> u64 {
        self.words[way as usize * 2 + 1].load(Ordering::SeqCst)
    }

    /// Waits until so many more ids are drawn in each way.
    #[track_caller]
    fn goes_on(&self, ids: u64) {
        let before = WAYS.map(|way| self.drawn(way));
        eventually("ids are drawn in each way", Duration::from_secs(60), || {
            WAYS.iter().zip(before).all(|(way, was)| self.drawn(*way) > was + ids).then_some(())
        });
    }
}

/// Not a test by itself: the drawing process's main function when [`BOARD`] is set.
#[test]
fn drawer() {
    let Some(path) = std::env::var_os(BOARD).map(PathBuf::from) else { return };
    let board = Board::new(&path, 0);
    let socket = std::env::var_os(SOCKET).expect("a drawer knows its socket");
    let count = std::env::var(COUNT).ok().map(|count| count.parse::<u64>().expect("a number"));
    let client = Client::builder().socket(socket).deadline(Duration::from_secs(30)).shared(true);
    let client = client.build().unwrap();
    let Some(count) = count else { draw_in_each_way(&board, &client) };
    let tag = client.tag("orders").unwrap();
    let draw = |turns: u64| {
        for _ in 0..turns {
            assert!(board.draw(Way::Shared, || tag.next()), "{:?}", tag.next());
        }
    };
    draw(count / 2);
    // SAFETY: the child draws ids and ends by _exit; what it needs of the client is made to work after a fork.
    match unsafe { libc::fork() } {
        -1 => panic!("no fork: {}", std::io::Error::last_os_error()),
        0 => {
            let drawing = || draw(count / 8);
            let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(drawing));
            // SAFETY: it ends the process and nothing else.
            unsafe { libc::_exit(i32::from(outcome.is_err())) };
        }
        child => {
            draw(count - count / 2 - count / 8);
            let mut status = 0;
            // SAFETY: the child is this process's own, and the address is a local's.
            let waited = unsafe { libc::waitpid(child, &raw mut status, 0) };
            assert_eq!((waited, status), (child, 0), "the child failed");
        }
    }
    drop(board.file);
}

/// Until the process is killed, or a thread has found what must not be. Errors are no such thing.
fn draw_in_each_way(board: &Board, shared: &Client) -> ! {
    let socket = shared.socket_path();
    let held = Client::builder().socket(socket).deadline(Duration::from_secs(30)).build().unwrap();
    let tag = shared.tag("orders").unwrap();
    let draw = |way| {
        for _ in 0..1_000 {
            match way {
                Way::Shared => board.draw(way, || tag.next()),
                Way::Direct => board.draw(way, || held.next_direct("orders")),
                Way::Held => board.draw(way, || held.next("orders")),
            };
        }
        // Held ids come so fast that they would fill the board.
        if way == Way::Held {
            std::thread::sleep(Duration::from_millis(1));
        }
    };
    std::thread::scope(|scope| {
        for way in WAYS {
            scope.spawn(move || {
                let drawing = std::panic::AssertUnwindSafe(|| {
                    loop {
                        draw(way);
                    }
                });
                let Err(_said) = std::panic::catch_unwind(drawing);
                std::process::exit(1);
            });
        }
    });
    unreachable!("its threads draw for ever")
}

/// A drawing process, killed with this value.
struct Drawer(Child);

impl Drawer {
    fn start(host: &Host, board: &Path, count: Option<u64>) -> Drawer {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command
            .args(["shared_runs::drawers::drawer", "--exact", "--nocapture"])
            .env(BOARD, board)
            .env(SOCKET, host.socket())
            .stdout(Stdio::null());
        if let Some(count) = count {
            command.env(COUNT, count.to_string());
        }
        Drawer(die_with_parent(&mut command).spawn().unwrap())
    }

    fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.0.id() as i32), signal).unwrap();
    }

    /// Fails if it has ended by itself: it found what must not be.
    #[track_caller]
    fn assert_alive(&mut self) {
        assert_eq!(self.0.try_wait().unwrap(), None, "a drawer failed: see its words above");
    }
}

impl Drop for Drawer {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn four_processes_and_their_children_draw_each_id_once_and_in_order() {
    let ids = std::env::var(IDS).map_or(IDS_DEFAULT, |ids| ids.parse().expect("a number of ids"));
    let mut host = sharing();
    host.start();
    host.create("orders");
    let path = host.path("board");
    let board = Board::new(&path, board_ids(ids));
    let start = |_| Drawer::start(&host, &path, Some(ids / PROCESSES));
    let mut drawers: Vec<Drawer> = (0..PROCESSES).map(start).collect();
    for drawer in &mut drawers {
        assert!(drawer.0.wait().unwrap().success(), "a drawer failed: see its words above");
    }
    let drawn = board.drawn(Way::Shared);
    assert_eq!(drawn, ids / PROCESSES * PROCESSES);
    let (largest, asked) = (board.largest(Way::Shared), super::requests(&host));
    println!("{ids} ids, {} skipped, {asked} requests", largest - drawn);
    assert!(asked < ids / 50, "{asked} requests for {ids} ids");
}

#[test]
fn processes_and_daemons_that_are_killed_and_stopped_give_no_id_twice_or_out_of_order() {
    for mut random in seeds(1) {
        let mut host = sharing();
        host.start();
        host.create("orders");
        let path = host.path("board");
        let board = Board::new(&path, 2_000_000_000);
        let mut drawers: Vec<Drawer> =
            (0..PROCESSES).map(|_| Drawer::start(&host, &path, None)).collect();
        let mut acts = vec![0, 0, 1, 1, 2, 3, 4, 5];
        random.shuffle(&mut acts);
        for act in acts {
            board.goes_on(500);
            let pause = Duration::from_millis(random.u64(1..300));
            let one = random.usize(0..drawers.len());
            match act {
                0 => drawers[one] = Drawer::start(&host, &path, None),
                1 => {
                    drawers[one].signal(Signal::SIGSTOP);
                    std::thread::sleep(pause * 5);
                    drawers[one].signal(Signal::SIGCONT);
                }
                2 => {
                    host.kill();
                    std::thread::sleep(pause);
                    host.start();
                }
                3 => {
                    host.stop();
                    std::thread::sleep(pause);
                    host.start();
                }
                4 => {
                    host.signal(Signal::SIGSTOP);
                    std::thread::sleep(pause + Duration::from_millis(1_200));
                    host.signal(Signal::SIGCONT);
                }
                _ => host.signal(Signal::SIGHUP),
            }
            drawers.iter_mut().for_each(Drawer::assert_alive);
        }
        board.goes_on(2_000);
        drawers.iter_mut().for_each(Drawer::assert_alive);
        drop(drawers);
        let last = board.largest(Way::Shared);
        assert!(share(&mut host.raw(), "orders").draw().unwrap() > last);
        println!("{:?} ids up to {last}", WAYS.map(|way| board.drawn(way)));
    }
}
