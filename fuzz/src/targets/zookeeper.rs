//! The nodes of a ZooKeeper registry, which any program may write, and a daemon that leases a worker by what they say.

use std::collections::BTreeMap;
use std::ops::Range;

use leafd::registry::zookeeper::permanent::pair::Pair;
use leafd::registry::zookeeper::record::{NodeRecord, Registration};
use leafd::registry::zookeeper::{leaf_node, leased};
use leafd_core::lease::{Lease, LeaseSettings, Mode, Request, Response, Step};
use leafd_core::registry::{
    Entry, Holder, INSTANT_MAX, LeaseRecord, RegistryError, RegistryId, Snapshot,
};
use leafd_core::store::{History, StartToken, StoreId};
use leafd_core::{BootMs, Now, UnixMs, WorkerId};

use zookeeper_client::Stat;

use crate::input::Input;

/// A pool that is soon used up.
pub(super) const POOL: Range<u64> = 0..4;

const LEASE_MS: u64 = 600_000;
const THRESHOLD_MS: u64 = 5_000;

/// A daemon asks for no more before it waits.
const STEPS_MAX: usize = 50;

pub(crate) fn run(input: &[u8]) {
    let mut input = Input::new(input);
    let now = Now {
        unix: UnixMs(1_700_000_000_000_u64.saturating_add_signed(input.number())),
        boot: BootMs(u64::from(input.u32())),
    };
    let clock = UnixMs(now.unix.0.saturating_add_signed(i64::from(input.u32().cast_signed())));
    let mut entries = BTreeMap::new();
    while !input.is_empty() {
        let stat = stat(i64::from(input.u8() % 4), input.number());
        let child = match input.u8() % 4 {
            0 => input.text(),
            1 => format!("10.0.0.1:8080-{}", input.u8()),
            _ => format!("{:05}", u64::from(input.u8()) % POOL.end),
        };
        let bytes = match input.u8() % 3 {
            0 => input.text().into_bytes(),
            1 => format!("{{\"timestamp\":{}}}", input.number()).into_bytes(),
            _ => record(&mut input).into_bytes(),
        };
        match leased::worker(&child).map(|worker| leased::entry(worker, &bytes, &stat)) {
            Some(Ok(entry)) => {
                let again = NodeRecord::new(&entry.holding, entry.seen, None).to_bytes();
                assert_eq!(leased::entry(entry.worker.0, &again, &stat), Ok(entry.clone()));
                entries.insert(entry.worker.0, entry);
            }
            Some(Err(odd)) => {
                assert!(!odd.is_empty());
                let worker = WorkerId(child.parse().expect("it was a number"));
                let holding = LeaseRecord { holder: None, expires: INSTANT_MAX };
                let written = time_of(&stat);
                entries.insert(worker.0, Entry { worker, holding, seen: written, written });
            }
            None => {}
        }
        leaf(&child, &bytes, stat, &mut input);
        if let Ok(found) = Registration::parse(&bytes) {
            assert_eq!(Registration::parse(&found.to_bytes()), Ok(found));
        }
    }
    lease(now, clock, entries);
}

/// The state of a node that this transaction wrote at this time, in milliseconds since 1970.
fn stat(mzxid: i64, mtime: i64) -> Stat {
    Stat {
        czxid: 0,
        mzxid,
        pzxid: 0,
        ctime: 0,
        mtime,
        version: 0,
        cversion: 0,
        aversion: 0,
        ephemeral_owner: 0,
        data_length: 0,
        num_children: 0,
    }
}

/// Times before 1970 read as 1970.
fn time_of(stat: &Stat) -> UnixMs {
    UnixMs(u64::try_from(stat.mtime).unwrap_or(0))
}

/// What leafd might have written.
fn record(input: &mut Input<'_>) -> String {
    let (bound, seen) = (input.number().cast_unsigned(), input.number().cast_unsigned());
    let holder = match input.u8() % 4 {
        0 => "null".to_owned(),
        1 => r#"{"id":"own","name":"host-a","incarnation":"own"}"#.to_owned(),
        2 => r#"{"id":"own","name":"host-a","incarnation":"stopped-earlier"}"#.to_owned(),
        _ => format!(r#"{{"id":"h{}","name":"host-a","incarnation":"x"}}"#, input.u8()),
    };
    format!(r#"{{"holder":{holder},"bound":{bound},"seen":{seen}}}"#)
}

/// Leaf's node, alone and beside one of leafd's.
fn leaf(child: &str, bytes: &[u8], stat: Stat, input: &mut Input<'_>) {
    let payload = match input.u8() % 2 {
        0 => bytes.to_vec(),
        _ => format!("{{\"timestamp\":{}}}", input.number()).into_bytes(),
    };
    let beside = Stat { mzxid: i64::from(input.u8() % 4), ..stat };
    for side in [None, Some((bytes.to_vec(), beside))] {
        let leaf = (payload.clone(), stat);
        match leaf_node::parse(child).map(|node| Pair { node, leaf, side }.entry()) {
            Some(Ok(entry)) => {
                assert_eq!(entry.written, time_of(&stat));
                let holder = entry.holding.holder;
                assert!(holder.is_none_or(|holder| !holder.id.is_empty()));
            }
            Some(Err(odd)) => assert!(odd.contains(child), "{odd}"),
            None => {}
        }
    }
}

/// A daemon without a journal that leases a worker: what it issues begins after every claim that was recorded of it.
pub(super) fn lease(now: Now, clock: UnixMs, entries: BTreeMap<u64, Entry>) {
    let holder = |incarnation: &str| Holder {
        id: "own".into(),
        name: "host-a".into(),
        incarnation: StartToken(incarnation.into()),
    };
    let settings = LeaseSettings {
        mode: Mode::Leased,
        pool: POOL,
        holder: holder("own"),
        named: false,
        place: "zookeeper".into(),
        embedded: false,
        lease_ms: LEASE_MS,
        restart_grace_ms: 60_000,
        clock_threshold_ms: THRESHOLD_MS,
        drift_max_ms: 5_000,
        settle_ms: None,
    };
    let registry = RegistryId { id: StoreId("zookeeper:1".into()), history: History("1".into()) };
    let before = entries.clone();
    let mut entries = entries;
    let mut lease = Lease::new(settings, None, now);
    lease.want();
    for random in 0..STEPS_MAX {
        let random = random as u64;
        match lease.next(now, random) {
            Step::Request(Request::Snapshot(pool)) => {
                let entries = entries.range(pool).map(|(_, entry)| entry.clone()).collect();
                let registry = registry.clone();
                let look = Snapshot { registry, history_age: None, now: clock, entries };
                lease.answered(now, Response::Snapshot(Ok(look)), random);
            }
            Step::Request(Request::CompareAndSet(_, swap)) => {
                let found = entries.get(&swap.worker.0).cloned();
                let answer = swap.judge(found, clock).map(|()| clock);
                if answer.is_ok() {
                    let (worker, holding) = (swap.worker, swap.next.clone());
                    let entry = Entry { worker, holding, seen: swap.seen, written: clock };
                    entries.insert(worker.0, entry);
                }
                lease.answered(now, Response::CompareAndSet(answer), random);
            }
            Step::Request(Request::Assign(..)) => {
                let refused = RegistryError::Refused("it leases".into());
                lease.answered(now, Response::Assign(Err(refused)), random);
            }
            Step::Request(Request::Record(_)) => {
                lease.answered(now, Response::Record(Ok(())), random);
            }
            Step::Wait(_) | Step::Done => break,
        }
        if let Ok(grant) = lease.standing(now) {
            let former = before.get(&grant.worker.0);
            assert!(
                former.is_none_or(|former| former.holding.expires <= grant.start),
                "{grant:?} after {former:?}"
            );
            let last = clock.0.saturating_add(LEASE_MS + THRESHOLD_MS);
            assert!(grant.limit.0 <= last, "{grant:?} at {clock:?}");
        }
        if let Some(problem) = &lease.trouble {
            assert!(!problem.to_string().is_empty());
        }
    }
    let _ = lease.clock.believed_time(Now { boot: BootMs(now.boot.0 + 1), ..now });
    assert_eq!(lease.clock.held_back_ms(now), 0, "no step was made");
}
