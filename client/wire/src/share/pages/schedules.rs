//! Pages drawn from and published in by several threads, in every order that loom finds.

use super::*;
use loom::sync::Arc;
use loom::thread;

const OLD: Run = Run { first: 10, count: 2, stride: 1 };
const NEW: Run = Run { first: 20, count: 2, stride: 3 };

fn pages() -> Arc<(RunPage, TicketPage)> {
    let page = RunPage::default();
    page.begin(1);
    page.renew(VALID_MAX_NS);
    Arc::new((page, TicketPage::default()))
}

fn draw(pages: &(RunPage, TicketPage)) -> Option<u64> {
    let (page, tickets) = pages;
    match page.find(tickets.take()) {
        Drawn::Taken(taken) => Some(taken.id),
        Drawn::Unpublished | Drawn::Lost => None,
    }
}

fn check_unique(mut ids: Vec<u64>) {
    let known: Vec<u64> = OLD.ids().chain(NEW.ids()).collect();
    assert!(ids.iter().all(|id| known.contains(id)), "{ids:?}");
    ids.sort_unstable();
    let all = ids.len();
    ids.dedup();
    assert_eq!(ids.len(), all, "an id came twice: {ids:?}");
}

/// The second publication overwrites the entry that the takers may be reading.
#[test]
fn loom_no_ticket_is_paired_with_another_entrys_ids() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(2);
    model.check(|| {
        let pages = pages();
        pages.0.publish(Published { base: 0, run: OLD });
        let taker = {
            let pages = Arc::clone(&pages);
            thread::spawn(move || {
                let ids: Vec<u64> = (0..2).filter_map(|_| draw(&pages)).collect();
                assert!(ids.is_sorted(), "{ids:?}");
                ids
            })
        };
        pages.0.publish(Published { base: TICKETS_PER_ENTRY, run: NEW });
        let mut ids: Vec<u64> = draw(&pages).into_iter().collect();
        ids.extend(taker.join().unwrap());
        check_unique(ids);
    });
}

#[test]
fn loom_processes_never_share_an_id() {
    // Two takers and a daemon have too many schedules to try all.
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(1);
    model.check(|| {
        let pages = pages();
        let takers: Vec<_> = (0..2)
            .map(|_| {
                let pages = Arc::clone(&pages);
                thread::spawn(move || draw(&pages))
            })
            .collect();
        pages.0.publish(Published { base: 0, run: OLD });
        pages.0.publish(Published { base: TICKETS_PER_ENTRY, run: NEW });
        check_unique(takers.into_iter().filter_map(|taker| taker.join().unwrap()).collect());
    });
}

#[test]
fn loom_the_first_entry_is_seen_whole_or_not_at_all() {
    loom::model(|| {
        let pages = pages();
        let taker = {
            let pages = Arc::clone(&pages);
            thread::spawn(move || draw(&pages))
        };
        pages.0.publish(Published { base: 0, run: OLD });
        if let Some(id) = taker.join().unwrap() {
            assert_eq!(id, OLD.first);
        }
    });
}

/// What the daemon revokes before it tells anybody else is not drawn by whoever was told.
#[test]
fn loom_nothing_is_drawn_after_the_revocation_is_known() {
    loom::model(|| {
        let pages = pages();
        pages.0.publish(Published { base: 0, run: OLD });
        let told = Arc::new(AtomicU32::new(0));
        let drawer = {
            let (pages, told) = (Arc::clone(&pages), Arc::clone(&told));
            thread::spawn(move || {
                let knew = told.load(Ordering::Acquire) == 1;
                let drawn = pages.0.draw(&pages.1, 1);
                assert!(!(knew && matches!(drawn, Some(Ok(_)))), "drawn after the end");
            })
        };
        pages.0.retire();
        told.store(1, Ordering::Release);
        drawer.join().unwrap();
    });
}
