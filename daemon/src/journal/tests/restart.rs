//! What a restart finds: the marks and limits, and nothing that was not acknowledged.

use leafd_core::segment::{MarkMove, Truncation};

use rusqlite::types::Value;

use super::super::db::{Syncs, connect};
use super::*;
use crate::engine::segments::cut_writes;

#[test]
fn marks_bounds_and_highest_ends_survive() {
    let dir = place();
    run(async {
        let (journal, first) = open(dir.path());
        assert!(first.begun && !first.stopped_cleanly && first.layouts.is_empty());
        assert_eq!(tag_of(&journal, "a").await, None);
        let batch = vec![
            segment("a", 1..1001, 100),
            segment("a", 2001..3001, 2001),
            segment("b", 1..11, 1),
            Write::LayoutMark(layout("snowflake", 5_000)),
        ];
        journal.commit(batch).await.unwrap();
        journal.commit(vec![mark("a", 1001, 500), mark("b", 11, 11)]).await.unwrap();
        journal.close().await;
        assert!(journal.commit(vec![]).await.is_err());

        let (journal, second) = open(dir.path());
        assert!(!second.begun && !second.stopped_cleanly);
        assert_eq!((second.host, second.set_aside), (first.host, None));
        assert_eq!(second.layouts, [layout("snowflake", 5_000)]);
        for (name, found) in [("snowflake", second.layouts.first()), ("unknown", None)] {
            assert_eq!(journal.layout(&tag(name)).await.unwrap().as_ref(), found);
        }
        let a = tag_of(&journal, "a").await.unwrap();
        assert_eq!(a.generation, Generation(1));
        assert_eq!((a.highest_end, ranges(a.unissued)), (3001, vec![500..1001, 2001..3001]));
        let b = tag_of(&journal, "b").await.unwrap();
        assert_eq!((b.highest_end, ranges(b.unissued)), (11, vec![]));
        let elsewhere = journal.tag(&StoreId("other".into()), &tag("a")).await.unwrap();
        assert_eq!(elsewhere, None);
        journal.close().await;
    });
}

#[test]
fn a_clean_stop_names_a_claim_by_what_an_earlier_life_left_of_it() {
    let dir = place();
    run(async {
        let (journal, _) = open(dir.path());
        journal.commit(vec![segment("a", 1..1001, 500)]).await.unwrap();
        journal.close().await;
        let (journal, _) = open(dir.path());
        // This is allowed only now: while ids are issued it would be a claim that overlaps another.
        assert!(journal.commit(vec![segment("a", 500..1001, 700)]).await.is_err());
        journal.commit(vec![mark("a", 1001, 700)]).await.unwrap();
        let exact = vec![segment("a", 500..1001, 640), Write::StoppedCleanly];
        journal.commit(exact).await.unwrap();
        journal.close().await;
        let (journal, _) = open(dir.path());
        assert_eq!(unissued(&journal, "a").await, [640..1001]);
        journal.close().await;
    });
}

#[test]
fn a_clean_stop_may_lower_marks_and_ends_everything() {
    let dir = place();
    run(async {
        let (journal, _) = open(dir.path());
        let batch = vec![segment("a", 1..1001, 500), Write::LayoutMark(layout("snowflake", 9_000))];
        journal.commit(batch).await.unwrap();
        journal.commit(vec![segment("b", 1..11, 11)]).await.unwrap();
        let exact = vec![
            mark("a", 1001, 3),
            segment("b", 1..11, 7),
            Write::LayoutMark(layout("snowflake", 8_000)),
            Write::StoppedCleanly,
        ];
        // Another batch shares the transaction, because both are queued during a query.
        let (answer, asked) = std::sync::mpsc::channel();
        let query = journal.read(move |_| {
            asked.recv().unwrap();
            Ok(())
        });
        let answering = async { answer.send(()).unwrap() };
        let (other, stopping) = (journal.commit(vec![]), journal.commit(exact));
        let (_, other, stopped, ()) = tokio::join!(query, other, stopping, answering);
        assert!(other.is_ok() && stopped.is_ok());
        let refused = journal.commit(vec![mark("a", 1001, 600)]).await.unwrap_err().to_string();
        assert!(refused.contains("stopped"), "{refused}");
        journal.close().await;

        let stopped_as = journal.stopped();
        let (journal, now) = open(dir.path());
        assert!(now.stopped_cleanly && stopped_as.is_some());
        assert_eq!(now.tokens_known(&store()).pop(), stopped_as);
        assert!(dir.path().join("stamp").exists() && !dir.path().join("stamp.new").exists());
        assert_eq!(now.layouts, [layout("snowflake", 8_000)]);
        assert_eq!(unissued(&journal, "a").await, [3..1001]);
        assert_eq!(unissued(&journal, "b").await, [7..11]);
        journal.close().await;
        let (journal, now) = open(dir.path());
        assert!(!now.stopped_cleanly, "the start in between had no clean stop");
        journal.close().await;
    });
}

#[test]
fn another_generation_forgets_the_segments_but_not_the_highest_end() {
    let dir = place();
    run(async {
        let (journal, _) = open(dir.path());
        journal.commit(vec![segment_of("a", 1, 1..1001, 1)]).await.unwrap();
        journal.commit(vec![segment_of("a", 2, 101..111, 101)]).await.unwrap();
        let now = tag_of(&journal, "a").await.unwrap();
        assert_eq!(now.generation, Generation(2));
        assert_eq!((now.highest_end, ranges(now.unissued)), (1001, vec![101..111]));
        journal.commit(vec![Write::Forget { store: store(), tag: tag("a") }]).await.unwrap();
        let now = tag_of(&journal, "a").await.unwrap();
        assert_eq!((now.highest_end, ranges(now.unissued)), (1001, vec![]));
        journal.close().await;
    });
}

/// Every fourth id, as one of four stores grants them.
fn strided(name: &str, first: u64, count: u32, stride: u32, mark: u64) -> Write {
    let run = Run { first, count, stride };
    Write::Segment { store: store(), tag: tag(name), generation: Generation(1), run, mark }
}

#[test]
fn a_strided_segment_is_found_as_it_was_left() {
    let dir = place();
    run(async {
        let (journal, _) = open(dir.path());
        journal.commit(vec![strided("c", 10, 1_000, 4, 10)]).await.unwrap();
        journal.commit(vec![mark("c", 4_007, 50)]).await.unwrap();
        journal.close().await;
        let (journal, _) = open(dir.path());
        let found = tag_of(&journal, "c").await.unwrap();
        let left = Run { first: 50, count: 990, stride: 4 };
        assert_eq!((found.highest_end, found.unissued), (4_007, vec![left]));
        // A stop records the segment as the start found it.
        let exact = strided("c", 50, 990, 4, 54);
        journal.commit(vec![exact, Write::StoppedCleanly]).await.unwrap();
        journal.close().await;
        let (journal, _) = open(dir.path());
        let found = tag_of(&journal, "c").await.unwrap();
        assert_eq!(found.unissued, [Run { first: 54, count: 989, stride: 4 }]);
        journal.close().await;
    });
}

#[test]
fn marks_are_drawn_back_and_a_segment_that_was_forgotten_comes_back() {
    let dir = place();
    let drawn_back = |first: u64, count: u32, mark: u64| Write::DrawBack {
        store: store(),
        tag: tag("a"),
        generation: Generation(1),
        run: Run { first, count, stride: 1 },
        mark,
    };
    run(async {
        let (journal, _) = open(dir.path());
        journal.commit(vec![segment("a", 1..1001, 900)]).await.unwrap();
        journal.commit(vec![drawn_back(1, 1_000, 40)]).await.unwrap();
        assert_eq!(unissued(&journal, "a").await, [40..1001]);
        // A segment whose mark is at its end is forgotten, and an earlier start may have left only a part of it.
        journal.commit(vec![mark("a", 1001, 1001), drawn_back(40, 961, 50)]).await.unwrap();
        assert_eq!(unissued(&journal, "a").await, [50..1001]);
        journal.commit(vec![mark("a", 1001, 60)]).await.unwrap();
        assert!(journal.commit(vec![drawn_back(50, 10, 50)]).await.is_err(), "it has another end");
        assert!(journal.commit(vec![mark("a", 1001, 59)]).await.is_err(), "not by a mark");
        assert_eq!(unissued(&journal, "a").await, [60..1001]);
        journal.close().await;
    });
}

#[test]
fn contradictions_are_refused_alone_and_whole() {
    let dir = place();
    run(async {
        let (journal, _) = open(dir.path());
        let batch = vec![
            segment("a", 1..1001, 100),
            strided("c", 10, 3, 4, 14),
            Write::LayoutMark(layout("snowflake", 5_000)),
        ];
        journal.commit(batch).await.unwrap();
        let mut other = layout("snowflake", 6_000);
        other.layout.worker_bits = 9;
        let too_large = 1 << 63;
        let bad = [
            mark("a", 1001, 99),
            mark("a", 1001, 1002),
            mark("a", 2001, 1500),
            mark("unknown", 11, 5),
            segment("a", 500..1501, 500),
            segment("a", 1..1001, 99),
            segment("a", 1..500, 1),
            segment("b", 0..10, 5),
            segment("b", 10..10, 10),
            segment("b", 10..20, 9),
            segment("b", 10..20, 21),
            strided("b", too_large - 1, 3, 1, too_large - 1),
            strided("b", 10, 3, 4, 11),
            strided("b", 10, 3, 4, 18 + 4),
            strided("b", 10, 3, 0, 10),
            mark("c", 19, 15),
            segment_of("b", too_large, 10..20, 10),
            Write::LayoutMark(layout("snowflake", 4_999)),
            Write::LayoutMark(other),
            Write::LayoutMark(layout("late", too_large)),
        ];
        for bad in bad {
            let batch = vec![segment("innocent", 1..11, 1), bad.clone()];
            let good = vec![mark("a", 1001, 100)];
            // Both are queued together, so that they share a transaction.
            let (refused, accepted) = tokio::join!(journal.commit(batch), journal.commit(good));
            let refused = refused.unwrap_err().to_string();
            assert!(refused.contains("contradicts"), "{bad:?}: {refused}");
            accepted.unwrap();
            assert!(journal.failure().is_none());
        }
        assert_eq!(tag_of(&journal, "innocent").await, None);
        assert_eq!(tag_of(&journal, "b").await, None);
        // Repeating the same change, or moving the mark of an exhausted segment, is not a contradiction.
        journal.commit(vec![segment("a", 1..1001, 100)]).await.unwrap();
        journal.commit(vec![mark("a", 1001, 1001)]).await.unwrap();
        journal.commit(vec![mark("a", 1001, 400)]).await.unwrap();
        assert_eq!(unissued(&journal, "a").await, []);
        journal.commit(vec![Write::LayoutMark(layout("late", too_large - 1))]).await.unwrap();
        journal.close().await;
    });
}

#[test]
fn many_at_once_share_transactions_and_a_question_sees_what_was_queued_before_it() {
    let dir = place();
    run(async {
        let (journal, _) = open(dir.path());
        let waiting: Vec<_> = (0..2_000u64)
            .map(|i| {
                let journal = journal.clone();
                tokio::spawn(async move {
                    let name = format!("tag {i}");
                    journal.commit(vec![segment(&name, 1..i + 2, 1)]).await
                })
            })
            .collect();
        for task in waiting {
            task.await.unwrap().unwrap();
        }
        let (store, last) = (store(), tag("last"));
        let write = journal.commit(vec![segment("last", 1..8, 1)]);
        let (written, seen) = tokio::join!(write, journal.tag(&store, &last));
        written.unwrap();
        assert_eq!(ranges(seen.unwrap().unwrap().unissued), [1..8]);
        journal.close().await;
        let (journal, _) = open(dir.path());
        for i in 0..2_000 {
            assert_eq!(unissued(&journal, &format!("tag {i}")).await, [1..i + 2]);
        }
        journal.close().await;
    });
}

/// A commit that was durable may report a fault, and is recorded again.
#[test]
fn each_kind_of_group_may_be_entered_twice() {
    let draw_back = |mark| {
        let generation = Generation(1);
        Write::DrawBack { store: store(), tag: tag("a"), generation, run: run_of(1..101), mark }
    };
    let forget = || Write::Forget { store: store(), tag: tag("a") };
    let history: std::sync::Arc<str> = "first".into();
    let checked_in = Write::CheckedIn { url: "sqlite:/x".into(), store: store(), history };
    // The ceiling was lowered into a segment. The rest of it is used, and its mark moves up.
    let ceiling_lowered = Truncation {
        lost: 50,
        closed: vec![MarkMove { shard: 0, end: 101, mark: 101 }],
        kept: Some((run_of(1..51), 20)),
    };
    let mut cut = cut_writes(&ceiling_lowered, &store(), &tag("a"), Some(Generation(1)));
    cut.push(mark("a", 51, 30));
    let groups = [
        cut,
        vec![mark("a", 101, 20)],
        vec![mark("a", 101, 101), segment("a", 101..201, 110)],
        vec![mark("a", 101, 50), draw_back(5)],
        vec![mark("a", 101, 101), draw_back(5)],
        vec![draw_back(5), mark("a", 101, 20)],
        vec![forget(), segment_of("a", 2, 1..101, 7)],
        vec![segment("b", 1..11, 5), Write::ForgetAll { store: store() }],
        vec![Write::LayoutMark(layout("l", 5_000))],
        vec![checked_in, Write::History { store: store(), history: "second".into() }],
        vec![Write::NoWorker],
    ];
    run(async {
        for group in groups {
            let dir = place();
            let (journal, _) = open(dir.path());
            journal.commit(vec![segment("a", 1..101, 10)]).await.unwrap();
            let first = enter(&journal, &group).await.unwrap();
            let second = enter(&journal, &group).await.unwrap();
            assert_eq!(first, second, "{group:?}");
            journal.close().await;
        }
        // Two rises of a mark can't be repeated. That is why no caller writes them.
        let dir = place();
        let (journal, _) = open(dir.path());
        let group = [segment("a", 1..101, 10), mark("a", 101, 20)];
        enter(&journal, &group).await.unwrap();
        assert!(enter(&journal, &group).await.unwrap_err().refused);
        journal.close().await;
    });
}

type Entered = (Option<TagRecord>, Option<TagRecord>, Option<LayoutRecord>);

/// Records a group of batches, and returns what is recorded then.
async fn enter(journal: &Journal, group: &[Write]) -> Result<Entered, JournalError> {
    let written: Vec<_> = group.iter().map(|write| journal.write(vec![write.clone()])).collect();
    for written in written {
        written.outcome().await?;
    }
    let layout = journal.layout(&tag("l")).await?;
    Ok((tag_of(journal, "a").await, tag_of(journal, "b").await, layout))
}

/// SQLite ignores a setting that it can't follow.
#[test]
fn commits_are_durable_or_the_file_is_refused() {
    let place = place();
    run(async { open(place.path()).0.close().await });
    let conn = connect(&place.path().join("journal.db"), Syncs::Commits).unwrap();
    let set = ["locking_mode", "journal_mode", "synchronous"]
        .map(|pragma| conn.pragma_query_value(None, pragma, |row| row.get::<_, Value>(0)).unwrap());
    let text = |text: &str| Value::Text(text.to_owned());
    assert_eq!(set, [text("exclusive"), text("wal"), Value::Integer(2)]);
    let refused = connect(Path::new(":memory:"), Syncs::Commits).unwrap_err().to_string();
    assert!(refused.contains("journal_mode at memory instead of wal"), "{refused}");
}

/// A truncated file or a full disk would make the kernel kill a process that has mapped it.
#[test]
fn no_file_is_mapped() {
    run(async {
        let place = place();
        let dir = place.path().join("state");
        for _ in 0..2 {
            let (journal, _) = open(&dir);
            journal.commit(vec![segment("a", 1..1_001, 10)]).await.unwrap();
            assert!(!dir.join("journal.db-shm").exists());
            journal.close().await;
        }
    });
}
