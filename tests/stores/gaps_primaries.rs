//! `leafctl gaps` and `whose` for tags in independent primaries, with two hosts: the fate of each number, whichever
//! primary granted it, after a crash, a lowered ceiling and a change of the list; and what is unknown while a primary
//! is unavailable.

use std::collections::{BTreeMap, HashSet};

use leafd_tests::host::{Host, eventually};
use leafd_wire::opcode;
use serde_json::{Value, json};

use crate::primaries::{End, Primaries, WITHIN, tag};
use crate::scene::{create, take_as_a_leaf};

const TAG: &str = "events.a";

/// What is reported about each number of a range, which must be in exactly one part of one page.
#[track_caller]
fn told(host: &Host, first: u64, last: u64) -> BTreeMap<u64, Value> {
    let (mut told, mut from) = (BTreeMap::new(), first);
    loop {
        let answer = host.admin(opcode::GAPS, &json!({ "tag": TAG, "first": from, "last": last }));
        let next = answer["next"].as_u64();
        for part in answer["parts"].as_array().unwrap() {
            let number = |name: &str| part[name].as_u64().unwrap();
            let (first, last, stride) = (number("first"), number("last"), number("stride"));
            assert!(first >= from && next.is_none_or(|next| last < next), "{part} in {answer}");
            assert_eq!((last - first) % stride, 0, "{part}");
            for id in (first..=last).step_by(usize::try_from(stride).unwrap()) {
                assert!(told.insert(id, part.clone()).is_none(), "{id} is in two parts");
            }
        }
        match next {
            Some(next) => from = next,
            None => break,
        }
    }
    assert_eq!(told.len() as u64, last - first + 1, "each number is in a part");
    assert_eq!(told.keys().copied().collect::<Vec<_>>(), (first..=last).collect::<Vec<_>>());
    told
}

fn why(told: &BTreeMap<u64, Value>, id: u64) -> &str {
    told[&id]["why"].as_str().unwrap()
}

#[track_caller]
fn whose(host: &Host, id: u64) -> Value {
    host.admin(opcode::WHOSE, &json!({ "tag": TAG, "id": id }))
}

fn named(primaries: &Primaries, name: &str) -> Host {
    let mut host = primaries.host().set("identity", name);
    host.change("removed_tag_check", "1s");
    host.start();
    host
}

/// Draws some ids from each of two primaries, while the other one is unavailable.
fn draw_of_both(primaries: &mut Primaries, hosts: [&Host; 2], drawn: &mut [Vec<u64>; 2]) {
    for place in 0..2 {
        primaries.all[1 - place].away(End::Kill);
        for (host, drawn) in hosts.iter().zip(&mut *drawn) {
            eventually("ids of the one that is there", WITHIN, || {
                let id = host.client().next_direct(TAG).ok()?;
                drawn.push(id);
                (id % 2 == place as u64).then_some(())
            });
            drawn.extend(host.raw().draw(TAG, 40));
        }
        primaries.all[1 - place].back();
    }
    for host in hosts {
        eventually("the host finds both again", WITHIN, || {
            let answer = host.admin(opcode::GAPS, &json!({ "tag": TAG, "first": 1, "last": 2 }));
            (answer["away"] == json!([])).then_some(())
        });
    }
}

#[track_caller]
fn assert_unique(drawn: &[Vec<u64>]) {
    let mut seen = HashSet::new();
    assert!(drawn.iter().flatten().all(|id| seen.insert(*id)), "no id came twice");
}

/// One past the highest id that any primary has granted.
fn end(primaries: &Primaries) -> u64 {
    primaries.ends(TAG).into_iter().max().unwrap()
}

#[test]
fn each_number_of_both_primaries_is_accounted_for() {
    let mut primaries = Primaries::new(2);
    let (mut a, b) = (named(&primaries, "web-1"), named(&primaries, "web-2"));
    create(&a, TAG, 100);
    let mut drawn = [Vec::new(), Vec::new()];
    draw_of_both(&mut primaries, [&a, &b], &mut drawn);
    // Another program takes numbers from the second primary.
    let raised = take_as_a_leaf(|sql| primaries.all[1].ask(sql), TAG, 40);
    let before_crash = drawn[0].len();
    a.kill();
    a.start();
    drawn[0].extend(a.raw().draw(TAG, 5));
    let after_crash = drawn[0][before_crash];
    assert_unique(&drawn);

    let to = end(&primaries) + 60;
    let mut missing = 0;
    for (host, name, drawn) in [(&a, "web-1", &drawn[0]), (&b, "web-2", &drawn[1])] {
        let told = told(host, 1, to);
        let ends = primaries.ends(TAG);
        let drawn: HashSet<u64> = drawn.iter().copied().collect();
        for (id, part) in &told {
            let (why, own) = (part["why"].as_str().unwrap(), part["own"] == true);
            let place = (id % 2) as usize;
            assert_eq!(part["store"], ["a", "b"][place], "{id}: {part}");
            assert_eq!(own, part["name"] == name, "{id}: {part}");
            match why {
                // A crash skips the ids of some seconds, which are several claims with so short an autonomy.
                "issued" if own => {
                    assert!(drawn.contains(id) || name == "web-1", "{id} was not drawn: {part}");
                }
                "held" | "dropped" | "lost" if own => {
                    assert!(!drawn.contains(id), "{id} was drawn: {part}");
                }
                "not_claimed" => assert!(*id >= ends[place], "{id}: {part}, {ends:?}"),
                "by_none_of_leafds_hosts" => {
                    assert!(place == 1 && (raised..raised + 40).contains(id), "{id}: {part}");
                }
                "issued_until_crash" => assert!(own && name == "web-1", "{id}: {part}"),
                _ => assert!(!own && part["name"].is_string(), "{id}: {part}"),
            }
            missing += u64::from(!drawn.contains(id));
        }
        for id in &drawn {
            assert_eq!(told[id]["name"], name, "{id}: {}", told[id]);
        }
        assert_eq!(why(&told, raised | 1), "by_none_of_leafds_hosts");
        assert_eq!(["not_claimed"; 2], [why(&told, to), why(&told, to - 1)]);
    }
    println!("{missing} numbers were missing, each with its reason");
    let of_a = told(&a, 1, to);
    assert_eq!(why(&of_a, after_crash), "issued");
    let crashed = |part: &Value| part["why"] == "issued_until_crash" && part["at_ms"].is_u64();
    assert!(of_a.values().any(crashed), "{of_a:#?}");
    // The answers about single ids must agree.
    for id in [drawn[0][0], drawn[1][0], drawn[1][drawn[1].len() - 1]] {
        let answer = whose(&a, id);
        assert_eq!(answer["verdict"], "claimed", "{answer}");
        assert_eq!(answer["claims"][0]["name"], of_a[&id]["name"], "{answer}");
    }
    assert_eq!(whose(&b, raised | 1)["verdict"], "by_none_of_leafds_hosts");
    assert_eq!(whose(&b, to)["verdict"], "not_claimed");
    let output = a.leafctl(&["gaps", TAG, &format!("1..{to}")]);
    let words = String::from_utf8_lossy(&output.stdout);
    for expected in ["in steps of 2  issued;", "skipped by the crash before", "not claimed yet"] {
        assert!(words.contains(expected), "{expected}: {words}");
    }

    // The other host notices the lowered ceiling.
    let last = drawn[1][drawn[1].len() - 1];
    let of_b = told(&b, last, to);
    let held: Vec<u64> = of_b
        .keys()
        .filter(|id| of_b[id]["why"] == "held" && of_b[id]["own"] == true)
        .copied()
        .collect();
    let ceiling = held[held.len() / 2];
    let (done, said) = tag(&a, &["set", TAG, "--ceiling", &ceiling.to_string()]);
    assert!(done, "{said}");
    eventually("what it holds above the ceiling is dropped", WITHIN, || {
        let of_b = told(&b, last, to);
        let dropped = |id: &&u64| of_b[*id]["why"] == "dropped" && of_b[*id]["cause"] == "ceiling";
        held.iter().filter(|id| **id > ceiling).all(|id| dropped(&id)).then_some(())
    });
    let of_b = told(&b, 1, to);
    for id in &drawn[1] {
        assert_eq!(why(&of_b, *id), "issued", "{}", of_b[id]);
    }
    assert!(held.iter().filter(|id| **id <= ceiling).all(|id| why(&of_b, *id) == "held"));
}

#[test]
fn what_a_primary_that_is_away_knows_is_not_guessed() {
    let mut primaries = Primaries::new(2);
    let (a, b) = (named(&primaries, "web-1"), named(&primaries, "web-2"));
    create(&a, TAG, 100);
    let mut drawn = [Vec::new(), Vec::new()];
    draw_of_both(&mut primaries, [&a, &b], &mut drawn);
    take_as_a_leaf(|sql| primaries.all[0].ask(sql), TAG, 40);
    let to = end(&primaries) + 60;
    let before = told(&a, 1, to);
    primaries.all[1].away(End::Kill);
    let during = told(&a, 1, to);
    for (id, part) in &during {
        let was = why(&before, *id);
        match (id % 2, was) {
            (1, _) => {
                assert_eq!((&part["why"], &part["store"]), (&json!("primary_away"), &json!("b")))
            }
            // Under another list, the other primary may have granted it.
            (_, "by_none_of_leafds_hosts" | "not_remembered") => {
                assert_eq!(part["why"], "primary_away", "{id}");
            }
            _ => assert_eq!(part["name"], before[id]["name"], "{id}: {part}, and it was {was}"),
        }
    }
    assert_eq!(why(&during, to - to % 2), "not_claimed", "of the one that answers this is known");
    let of = |place| *drawn[1].iter().find(|id| **id % 2 == place).unwrap();
    let answer = whose(&a, of(0));
    assert_eq!(
        (&answer["verdict"], &answer["away"]),
        (&json!("claimed"), &json!(["b"])),
        "{answer}"
    );
    assert_eq!(whose(&a, of(1))["verdict"], "primary_away");
    for words in [&["gaps", TAG, "1..9"][..], &["whose", "--tag", TAG, &of(1).to_string()]] {
        let output = a.leafctl(words);
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(
            said.contains("primary b") && said.contains("is unavailable"),
            "{words:?}: {output:?}"
        );
    }
    primaries.all[1].back();
    eventually("it is known again", WITHIN, || {
        (why(&told(&a, 1, to), of(1)) == why(&before, of(1))).then_some(())
    });
    for id in drawn.iter().flatten() {
        assert_eq!(whose(&a, *id)["verdict"], "claimed");
    }
    assert_unique(&drawn);

    primaries.all[0].away(End::Kill);
    primaries.all[1].away(End::Kill);
    let output = a.leafctl(&["gaps", TAG, "1..9"]);
    assert!(!output.status.success(), "{output:?}");
}

/// The number of claims, which is more than fit into one answer.
const ROWS: u64 = 600;

/// More claims than fit into one answer, interleaved, and a row that leafd did not write.
#[test]
fn many_claims_of_primaries_are_told_page_by_page() {
    let primaries = Primaries::new(2);
    let a = named(&primaries, "web-1");
    create(&a, TAG, 100);
    let drawn = [a.raw().draw(TAG, 100)];
    // Far above the ids that the host claims meanwhile.
    let from = 1_000_000;
    for (place, primary) in primaries.all.iter().enumerate() {
        // Each claim has one id, and skips the next id of its primary.
        let row = |index| {
            let first = from + place as u64 + 4 * index;
            format!("('{TAG}', {}, 5000, {first}, 2, 7, 'ghost', 'ghost')", first + 1)
        };
        let rows: Vec<String> = (0..ROWS).map(row).collect();
        let columns = "tag, end_id, claimed_ms, first_id, stride, generation, host, name";
        primary.sql(&format!("INSERT INTO leafd_claim ({columns}) VALUES {}", rows.join(", ")));
        primary.sql(&format!("UPDATE leaf_alloc SET max_id = {}", from + 4 * ROWS));
    }
    let told = told(&a, from, from + 4 * ROWS);
    for index in 0..ROWS {
        for (offset, expected) in [(0, "ghost"), (1, "ghost"), (2, ""), (3, "")] {
            let part = &told[&(from + 4 * index + offset)];
            assert_eq!(part["name"].as_str().unwrap_or_default(), expected, "{part}");
        }
    }
    assert_unique(&drawn);
    primaries.all[0].sql(
        "INSERT INTO leafd_claim (tag, end_id, claimed_ms, first_id, stride, generation, host, name)
         VALUES ('events.a', 2000002, 5000, 1, 2000000, 7, 'ghost', 'ghost')",
    );
    let (done, said) = {
        let output = a.leafctl(&["gaps", TAG, &format!("{}..3000000", from + 4 * ROWS)]);
        (output.status.success(), String::from_utf8(output.stderr).unwrap())
    };
    assert!(!done && said.contains("leafd did not write"), "{said}");
}
