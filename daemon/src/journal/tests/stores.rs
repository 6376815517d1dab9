//! What the journal remembers of stores over several starts: their URLs, their history, and which tokens they may
//! have.

use std::process::Command;
use std::slice;

use super::*;
use leafd_core::store::{HostId, StartToken};

fn id(name: &str) -> StoreId {
    StoreId(name.into())
}

fn checked_in(url: &str, store: &str, history: &str) -> Write {
    Write::CheckedIn { url: url.into(), store: id(store), history: history.into() }
}

fn history(store: &str, history: &str) -> Write {
    Write::History { store: id(store), history: history.into() }
}

/// A start that writes this and ends. Returns what it recovered.
async fn start(dir: &Path, writes: Vec<Write>) -> Recovered {
    let (journal, now) = open(dir);
    journal.commit(writes).await.unwrap();
    journal.close().await;
    now
}

fn urls(recovered: &Recovered, store: &str) -> Vec<String> {
    recovered.of(&id(store)).unwrap().urls.keys().map(ToString::to_string).collect()
}

#[test]
fn a_store_that_is_away_may_have_the_token_of_every_start_since_it_confirmed_one() {
    let dir = place();
    let dir = dir.path();
    run(async {
        let both = vec![checked_in("url a", "a", "ha"), checked_in("url b", "b", "hb")];
        let first = start(dir, both).await;
        assert!(first.stores.is_empty() && first.tokens_known(&id("a")).is_empty());
        let mut later = vec![first.token];
        for _ in 0..40 {
            let some = vec![checked_in("url d", "d", "hd"), checked_in("url a", "a", "ha")];
            let now = start(dir, some).await;
            assert_eq!(now.tokens_known(&id("a")), later[later.len() - 1..]);
            assert_eq!(now.tokens_known(&id("b")), later);
            later.push(now.token);
        }
        // The tokens that b may have are dropped when b confirms, and not before.
        let now = start(dir, vec![checked_in("url b", "b", "hb")]).await;
        assert_eq!(now.tokens_known(&id("b")), later);
        let again = start(dir, vec![checked_in("url a", "a", "ha")]).await;
        assert_eq!(again.tokens_known(&id("b")), slice::from_ref(&now.token));
        assert_eq!(again.tokens_known(&id("a")), [later.pop().unwrap(), now.token]);
        let last = start(dir, vec![]).await;
        // A store without a record may have taken the token of one of the latest starts all the same.
        let unknown = last.tokens_known(&id("c"));
        assert!(unknown.contains(&again.token) && unknown.len() == 16, "{}", unknown.len());
        assert_eq!(last.tokens_known(&id("a")), [again.token]);
        let url = |url: &str| last.at(url).map(|at| (at.store.clone(), at.history.to_string()));
        assert_eq!(url("url a"), Some((id("a"), "ha".to_owned())));
        assert_eq!(url("url b"), Some((id("b"), "hb".to_owned())));
        assert_eq!(url("url c"), None);
    });
}

#[test]
fn tokens_of_unconfirmed_starts_pile_up_to_a_limit() {
    const KEPT: usize = 1_000;
    let dir = place();
    let dir = dir.path();
    run(async {
        let confirmed = start(dir, vec![checked_in("url", "a", "h")]).await.token;
        let mut drawn: Vec<StartToken> = vec![confirmed.clone()];
        for _ in 0..KEPT + 10 {
            let now = start(dir, vec![]).await;
            assert!(now.token.0.len() == 32 && !drawn.contains(&now.token));
            drawn.push(now.token);
        }
        let now = start(dir, vec![]).await;
        let known = now.tokens_known(&id("a"));
        assert_eq!((known.len(), &known[0]), (KEPT + 1, &confirmed));
        assert_eq!(known[1..], drawn[drawn.len() - KEPT..]);
        assert_eq!(now.tokens_known(&id("unknown")), known[1..]);
    });
}

#[test]
fn a_store_reached_through_another_url_is_known_by_its_name() {
    let dir = place();
    let dir = dir.path();
    run(async {
        let first = start(dir, vec![checked_in("old", "a", "h1")]).await;
        let second = start(dir, vec![checked_in("new", "a", "h1")]).await;
        assert_eq!(second.tokens_known(&id("a")), [first.token]);
        // Another store answers at the old URL. The first one keeps its record and its other URL.
        let third = start(dir, vec![checked_in("old", "b", "h2")]).await;
        assert_eq!(urls(&third, "a"), ["new", "old"]);
        let fourth = start(dir, vec![checked_in("new", "b", "h2")]).await;
        assert_eq!(
            (urls(&fourth, "a"), urls(&fourth, "b")),
            (vec!["new".into()], vec!["old".into()])
        );
        let last = start(dir, vec![]).await;
        assert_eq!(urls(&last, "a"), [""; 0]);
        assert_eq!(last.at("new").unwrap().store, id("b"));
        let a = [second.token, third.token, fourth.token.clone()];
        assert_eq!(last.tokens_known(&id("a")), a);
        assert_eq!(last.tokens_known(&id("b")), [fourth.token]);
        assert_eq!(&*last.of(&id("a")).unwrap().history, "h1");
    });
}

#[test]
fn a_store_whose_urls_are_all_unused_is_a_former_one() {
    let dir = place();
    let dir = dir.path();
    run(async {
        let some = vec![
            checked_in("old", "a", "h"),
            checked_in("new", "a", "h"),
            checked_in("b", "b", "h"),
            checked_in("adopted", "c", "h"),
            checked_in("adopted", "a", "h"),
        ];
        start(dir, some).await;
        let now = start(dir, vec![]).await;
        let former = |urls: &[&str]| {
            now.former_stores(&urls.iter().map(|url| (*url).to_owned()).collect::<Vec<_>>())
        };
        assert_eq!(former(&["new", "other"]), [(id("b"), "b".into())]);
        assert_eq!(former(&["b"]), [(id("a"), "adopted".into())]);
        assert_eq!(former(&["b", "old"]), []);
    });
}

#[test]
fn a_history_changes_only_when_that_was_dealt_with() {
    let dir = place();
    let dir = dir.path();
    run(async {
        start(dir, vec![checked_in("url", "a", "timeline 1")]).await;
        start(dir, vec![checked_in("url", "a", "timeline 2")]).await;
        let now = start(dir, vec![history("a", "timeline 2")]).await;
        assert_eq!(&*now.at("url").unwrap().history, "timeline 1");
        let now = start(dir, vec![]).await;
        assert_eq!(&*now.at("url").unwrap().history, "timeline 2");
        assert_eq!(now.tokens_known(&id("a")).len(), 2, "a history says nothing of tokens");
    });
}

#[test]
fn how_far_this_host_s_writes_have_come_is_remembered_within_a_history() {
    let dir = place();
    let dir = dir.path();
    run(async {
        let written = |number| Write::Written { store: id("a"), number };
        start(dir, vec![checked_in("url", "a", "h1"), written(7)]).await;
        // Another check-in and the same history change nothing.
        start(dir, vec![checked_in("url", "a", "h1"), history("a", "h1")]).await;
        assert_eq!(start(dir, vec![history("a", "h2")]).await.at("url").unwrap().written, 7);
        assert_eq!(start(dir, vec![]).await.at("url").unwrap().written, 0);
        // A host that continues as a new one has written nothing, even if a number of the former host arrives late.
        let anew = Write::BeginAnew { host: HostId("another".into()) };
        start(dir, vec![written(8), anew, written(9)]).await;
        let now = start(dir, vec![]).await;
        assert_eq!((now.at("url").unwrap().written, now.host), (0, HostId("another".into())));
    });
}

#[test]
fn what_can_t_be_recorded_of_a_store_is_refused() {
    let dir = place();
    let dir = dir.path();
    run(async {
        let longest = "h".repeat(crate::journal::HISTORY_BYTES_MAX);
        let long = format!("{longest}h");
        let (journal, _) = open(dir);
        journal.commit(vec![checked_in("url", "a", &longest)]).await.unwrap();
        for (bad, why) in [
            (checked_in("other", "a", &long), "1025 bytes"),
            (checked_in("other", &long, "h"), "1025 bytes"),
            (checked_in(&long.repeat(8), "a", "h"), "8200 bytes"),
            (history("a", &long), "1025 bytes"),
            (history("b", "h"), "never checked in"),
            (Write::Written { store: id("b"), number: 1 }, "never checked in"),
        ] {
            let refused = journal.commit(vec![bad]).await.unwrap_err();
            assert!(refused.refused && refused.cause.contains(why), "{refused}");
        }
        assert!(journal.failure().is_none());
        journal.close().await;
        let (journal, now) = open(dir);
        assert_eq!((now.stores.len(), &*now.stores[0].history), (1, &*longest));
        assert_eq!(urls(&now, "a"), ["url"]);
        journal.close().await;
    });
}

#[test]
fn urls_that_change_all_the_time_don_t_pile_up() {
    let dir = place();
    let dir = dir.path();
    run(async {
        start(dir, vec![checked_in("b", "b", "h")]).await;
        let many = (0..150).map(|i| checked_in(&format!("a{i}"), "a", "h")).collect();
        start(dir, many).await;
        let now = start(dir, vec![checked_in("b", "b", "h")]).await;
        assert_eq!((urls(&now, "a").len(), urls(&now, "b").len()), (100, 1));
        start(dir, vec![checked_in("new", "a", "h")]).await;
        let now = start(dir, vec![]).await;
        assert_eq!(urls(&now, "a").len(), 100);
        assert!(now.at("new").is_some() && now.at("a149").is_some(), "the latest are kept");
    });
}

#[test]
fn a_copy_knows_stores_and_histories_but_is_another_host() {
    let place = place();
    let (original, copy) = (place.path().join("original"), place.path().join("copy"));
    run(async {
        start(&original, vec![checked_in("url a", "a", "ha"), segment("t", 1..101, 10)]).await;
        let was = start(&original, vec![checked_in("url b", "b", "hb")]).await;
        let status = Command::new("cp").arg("-a").args([&original, &copy]).status().unwrap();
        assert!(status.success());
        let now = start(&copy, vec![]).await;
        assert!(now.set_aside.is_some() && now.host != was.host);
        assert_eq!(&*now.at("url a").unwrap().history, "ha");
        assert_eq!(&*now.at("url b").unwrap().history, "hb");
        assert!(now.stores.iter().all(|record| now.tokens_known(&record.store).is_empty()));
        let again = start(&copy, vec![checked_in("url a", "a", "ha")]).await;
        assert_eq!(again.tokens_known(&id("a")), slice::from_ref(&now.token));
        let last = start(&copy, vec![]).await;
        assert_eq!(last.tokens_known(&id("a")), slice::from_ref(&again.token));
        assert_eq!(last.tokens_known(&id("b")), [now.token, again.token]);
    });
}

#[test]
fn leftovers_of_one_store_are_forgotten_and_its_ends_are_not() {
    let dir = place();
    let dir = dir.path();
    run(async {
        let elsewhere = Write::Segment {
            store: id("other"),
            tag: tag("a"),
            generation: Generation(1),
            run: run_of(1..11),
            mark: 4,
        };
        let some = vec![segment("a", 1..1001, 10), segment("b", 1..51, 1), elsewhere];
        start(dir, some).await;
        start(dir, vec![Write::ForgetAll { store: store() }]).await;
        let (journal, _) = open(dir);
        for (name, end) in [("a", 1001), ("b", 51)] {
            let found = tag_of(&journal, name).await.unwrap();
            assert_eq!((found.highest_end, ranges(found.unissued)), (end, vec![]));
        }
        let other = journal.tag(&id("other"), &tag("a")).await.unwrap().unwrap();
        assert_eq!(ranges(other.unissued), [4..11]);
        journal.close().await;
    });
}

/// All ends of a store, read page by page.
async fn all_ends(journal: &Journal, store: &StoreId, limit: u32) -> Vec<(String, u64)> {
    let mut all: Vec<(Tag, u64)> = Vec::new();
    loop {
        let after = all.last().map(|(tag, _)| tag.clone());
        let page = journal.ends(store, after.as_ref(), limit).await.unwrap();
        assert!(page.len() <= usize::try_from(limit).unwrap());
        if page.is_empty() {
            return all.into_iter().map(|(tag, end)| (tag.as_str().to_owned(), end)).collect();
        }
        all.extend(page);
    }
}

#[test]
fn highest_ends_come_in_pages() {
    let dir = place();
    let dir = dir.path();
    run(async {
        // Some segments are exhausted, and some tags have another generation by now. Their ends count too.
        let mut writes: Vec<Write> =
            (0..2_500).map(|i| segment(&format!("tag {i:04}"), 1..i + 2, i + 2)).collect();
        writes.push(segment_of("tag 0007", 2, 1..3, 1));
        writes.push(Write::Segment {
            store: id("other"),
            tag: tag("tag 0000"),
            generation: Generation(1),
            run: run_of(1..900),
            mark: 4,
        });
        start(dir, writes).await;
        let (journal, _) = open(dir);
        let expected: Vec<_> = (0..2_500).map(|i| (format!("tag {i:04}"), i + 2)).collect();
        for limit in [1_000, 2_500, 10_000, 7] {
            assert_eq!(all_ends(&journal, &store(), limit).await, expected);
        }
        assert_eq!(all_ends(&journal, &id("unknown"), 10).await, []);
        journal.close().await;
    });
}

#[test]
fn highest_ends_of_an_embedded_store_are_those_of_its_earlier_lives_too() {
    let dir = place();
    let dir = dir.path();
    let claim = |store: &str, name: &str, end: u64| Write::Segment {
        store: id(store),
        tag: tag(name),
        generation: Generation(1),
        run: run_of(1..end),
        mark: 1,
    };
    run(async {
        let lost = [claim("sqlite:1", "a", 100), claim("sqlite:1", "b", 5), claim("pg", "a", 900)];
        start(dir, lost.into()).await;
        let (journal, _) = open(dir);
        let now = vec![claim("sqlite:2", "a", 50), claim("sqlite:2", "c", 7)];
        journal.commit(now).await.unwrap();
        let expected = [("a", 100), ("b", 5), ("c", 7)].map(|(tag, end)| (tag.to_owned(), end));
        for limit in [1, 2, 9] {
            assert_eq!(all_ends(&journal, &id("sqlite:2"), limit).await, expected);
        }
        for (name, end) in [("a", 100), ("b", 5), ("c", 7)] {
            let record = journal.tag(&id("sqlite:2"), &tag(name)).await.unwrap();
            assert_eq!(record.unwrap().highest_end, end, "{name}");
        }
        // Another kind of store has nothing to do with them.
        assert_eq!(all_ends(&journal, &id("pg"), 9).await, [("a".to_owned(), 900)]);
        assert_eq!(journal.tag(&id("pg"), &tag("b")).await.unwrap(), None);
        journal.close().await;
    });
}
