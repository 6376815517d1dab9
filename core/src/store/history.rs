//! A store's history, which is a value in its own tables, and what each host compares it with.
//!
//! A store lives through several *lives*. A life ends when the store may have lost commits: at a fail-over, at a
//! restore, or when a host finds that something it knows is missing. The first host to notice this draws a new life and
//! writes it to the store's tables, in a [`Note`]. What an engine reports about itself is evidence that a life has
//! ended, but never the identity, because two lives can look alike from outside.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// The store's lives, the current one first. With Leaf's table only, there is no place for lives: then this is the
/// engine's report, after `engine:`, and can only be compared for equality. Empty for an embedded store.
///
/// A life is 16 hexadecimal digits. A former life has a mark: `*` if claims were made in it, and `!` if claims
/// continued in it after it had lost commits. The first life is followed by the histories without lives that it
/// continues: those of Leaf's table, right before and after leafd's own tables were created beside it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub struct History(pub Arc<str>);

/// The maximum number of lives in a history.
const LIVES_MAX: usize = 32;

/// The prefix of a history without lives.
const WITHOUT_LIVES: &str = "engine:";

/// The prefix of a history whose note is no longer true. Nothing can be claimed under it.
const IN_DOUBT: &str = "in doubt: ";

/// What is known of a former life. Each variant implies the ones before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Mark {
    /// When it ended, the store had no record of a claim in it.
    Unused,
    /// Claims were made in it.
    Used,
    /// Claims were made in it after it had lost commits, and before a host noticed that.
    Lossy,
}

/// The record of a store's history in its own tables. The default stands for a store without a recorded past, and is
/// always in doubt.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Note {
    pub history: History,
    /// Whether claims were made in the current life, after which it is too late for hosts to report.
    pub settled: bool,
    /// What the engine reported about itself when the current life began.
    pub engine: String,
}

/// What a host knows, and the store must still contain as long as it is in the same life.
#[derive(Clone, Debug, Default)]
pub struct Proof {
    /// The history to which this applies.
    of: History,
    /// The number of the host's last confirmed write; 0 if there is none in this history.
    written: u64,
    /// The number of its last attempt to write. A write of unknown outcome may have this number, or one in between.
    tried: u64,
    /// The furthest position of the engine that has been seen.
    position: u64,
}

/// How a store compares with a [`Proof`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kept {
    All,
    /// Something is missing: the store has lost commits.
    Lost,
    /// There is a later write under this host's name that none of its own starts made: another daemon runs with a copy
    /// of its state.
    ByAnother,
}

// === impl History ===

impl History {
    /// A history with a single life.
    pub fn first(life: u64) -> History {
        History(format!("{life:016x}").into())
    }

    /// The history of a store without a place for lives. `engine`, the engine's report, may look like a life.
    pub fn without_lives(engine: &str) -> History {
        History(format!("{WITHOUT_LIVES}{}", engine.trim_end().replace(' ', "/")).into())
    }

    /// The current life, if the history has lives.
    pub fn life(&self) -> Option<&str> {
        self.words().next().map(|(life, _)| life)
    }

    /// Whether its note is no longer true: commits may have been lost, and no host has recorded that yet.
    pub fn is_in_doubt(&self) -> bool {
        self.0.starts_with(IN_DOUBT)
    }

    /// Whether `later` has continued from this history's current life, so that the store was in this life before.
    pub fn is_former_of(&self, later: &History) -> bool {
        self.life().is_some_and(|life| later.words().skip(1).any(|(former, _)| former == life))
    }

    /// Whether this history includes the current life of `known`. A history without lives includes every other one.
    pub fn includes(&self, known: &History) -> bool {
        let Some(life) = known.life() else { return true };
        self.life().is_none() || self.words().any(|(one, _)| one == life)
    }

    /// Whether this is the history `known`, or begins with it: then nothing shows that the store has lost anything since a
    /// host trusted `known`.
    pub fn continues(&self, known: &History) -> bool {
        let had = |word: &str| known.0.starts_with(WITHOUT_LIVES) && *word == *known.0;
        self == known || (!self.is_in_doubt() && self.0.split(' ').any(had))
    }

    /// Whether other hosts may have claimed, in a former life, without knowing this host's numbers. This host trusted
    /// `known`, and reported its numbers to the store in the current lives of `told`. `was_away`: for so long that the
    /// others may have claimed without it. Then even a life that seems to have ended before any claim counts, because
    /// the store may have lost its claims together with the record that there were some.
    pub fn was_missed_by(&self, known: &History, told: &[History], was_away: bool) -> bool {
        self.words().skip(1).any(|(life, mark)| {
            let is_known = known.words().any(|(one, _)| one == life)
                || told.iter().any(|one| one.life() == Some(life));
            match mark {
                Mark::Unused => was_away && !is_known,
                Mark::Used => !is_known,
                Mark::Lossy => !known.words().any(|one| one == (life, Mark::Lossy)),
            }
        })
    }

    /// This history, marked as one whose note is no longer true.
    fn in_doubt(&self) -> History {
        History(format!("{IN_DOUBT}{}", self.0).into())
    }

    /// The lives with their marks, the current one first.
    fn words(&self) -> impl Iterator<Item = (&str, Mark)> {
        let lives = self.0.strip_prefix(IN_DOUBT).unwrap_or(&self.0);
        lives.split(' ').map_while(|word| {
            let (life, mark) = match (word.strip_suffix('*'), word.strip_suffix('!')) {
                (Some(life), _) => (life, Mark::Used),
                (_, Some(life)) => (life, Mark::Lossy),
                _ => (word, Mark::Unused),
            };
            let is_life = life.len() == 16 && life.bytes().all(|byte| byte.is_ascii_hexdigit());
            is_life.then_some((life, mark))
        })
    }
}

impl fmt::Display for History {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

// === impl Note ===

impl Note {
    /// The note of a store that was just created and can't have lost anything yet. `before`: the histories of Leaf's
    /// table alone that it continues.
    pub fn first(life: u64, engine: &str, before: &[History]) -> Note {
        let mut history = History::first(life).0.to_string();
        for one in before {
            history.push_str(&format!(" {one}"));
        }
        Note { history: History(history.into()), settled: true, engine: engine.to_owned() }
    }

    /// The history that this note represents if the engine reports `engine` about itself.
    pub fn found(&self, engine: &str, kept: Kept) -> History {
        match self.engine == engine && kept != Kept::Lost && self.history.life().is_some() {
            true => self.history.clone(),
            false => self.history.in_doubt(),
        }
    }

    /// The note of a new life, `life`, that begins while the engine reports `engine` about itself. `known` is the
    /// history that the recording host trusts. The lives that only this host knows are kept as well, because other
    /// hosts may have missed them.
    pub fn renewed(&self, life: u64, engine: &str, known: Option<&History>) -> Note {
        let mark = match (self.engine == engine, self.settled) {
            // While the engine's report is unchanged, claims continue until a host finds that something is missing.
            (true, _) => Mark::Lossy,
            (false, true) => Mark::Used,
            (false, false) => Mark::Unused,
        };
        // A host that trusts a history may have claimed in it.
        let trusted = known.into_iter().flat_map(|known| known.words().take(1));
        let trusted = trusted.map(|(life, _)| (life, Mark::Used));
        let own = self.history.words().take(1).map(|(life, _)| (life, mark));
        let rest = known.into_iter().flat_map(|known| known.words().skip(1));
        let all: Vec<_> =
            own.chain(trusted).chain(self.history.words().skip(1)).chain(rest).collect();
        let mut marks: BTreeMap<&str, Mark> = BTreeMap::new();
        for (life, mark) in &all {
            let most = marks.entry(life).or_insert(*mark);
            *most = (*most).max(*mark);
        }
        let mut text = format!("{life:016x}");
        for (life, _) in all {
            let Some(mark) = marks.remove(life) else { continue };
            if text.split(' ').count() < LIVES_MAX {
                let sign = match mark {
                    Mark::Unused => "",
                    Mark::Used => "*",
                    Mark::Lossy => "!",
                };
                text.push_str(&format!(" {life}{sign}"));
            }
        }
        Note { history: History(text.into()), settled: false, engine: engine.to_owned() }
    }
}

// === impl Proof ===

impl Proof {
    /// The proof of a host that has just written this number.
    pub fn of(history: &History, written: u64) -> Proof {
        Proof { of: history.clone(), written, tried: written, position: 0 }
    }

    /// Compares this with the store: the number of the last write under this host's name, whether this start or an
    /// earlier one of this host made it, and the engine's position. In another history, the store need not contain
    /// anything.
    pub fn check(
        &mut self,
        history: &History,
        written: Option<(u64, bool)>,
        position: Option<u64>,
    ) -> Kept {
        if *history != self.of {
            return Kept::All;
        }
        let (number, is_own) = written.unwrap_or_default();
        if number > self.tried && !is_own {
            return Kept::ByAnother;
        }
        if !(self.written..=self.tried).contains(&number)
            || position.is_some_and(|at| at < self.position)
        {
            return Kept::Lost;
        }
        self.position = self.position.max(position.unwrap_or(0));
        Kept::All
    }

    /// The number of the host's last confirmed write in this history; 0 if there is none.
    pub fn confirmed(&self, history: &History) -> u64 {
        if *history == self.of { self.written } else { 0 }
    }

    /// Whether the host has a confirmed write in this history.
    pub fn is_entered(&self, history: &History) -> bool {
        self.confirmed(history) > 0
    }

    /// The number for the next attempt to write in this history. Each attempt has its own number, so that a later one
    /// is never mistaken for an earlier one of unknown outcome. `found`: the number now in the store. The store may again
    /// contain writes of an earlier start that it had lost. If this write is lost later, those must not look like
    /// another daemon's.
    pub fn attempt(&mut self, history: &History, found: u64) -> u64 {
        let tried = self.tried.max(found) + 1;
        if *history != self.of {
            *self = Proof { of: history.clone(), ..Proof::default() };
        }
        self.tried = tried;
        tried
    }

    /// The write with this number was confirmed.
    pub fn confirm(&mut self, number: u64) {
        self.written = self.written.max(number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: &str = "0000000000000002 0000000000000001*";

    fn history(text: &str) -> History {
        History(text.into())
    }

    fn note(text: &str, settled: bool) -> Note {
        Note { history: history(text), settled, engine: "one".to_owned() }
    }

    #[test]
    fn a_note_without_a_life_or_of_another_engine_is_in_doubt() {
        assert!(Note::default().found("", Kept::All).is_in_doubt());
        assert!(note("x", true).found("one", Kept::All).is_in_doubt());
        assert_eq!(Note::first(7, "one", &[]).found("one", Kept::All), History::first(7));
        assert!(Note::first(7, "one", &[]).found("two", Kept::All).is_in_doubt());
        assert!(Note::first(7, "one", &[]).found("one", Kept::Lost).is_in_doubt());
    }

    #[test]
    fn a_new_life_remembers_how_the_former_one_ended() {
        let renewed = |settled, engine| note(KNOWN, settled).renewed(3, engine, None).history;
        assert_eq!(&*renewed(true, "two").0, &format!("{:016x} {:016x}* {:016x}*", 3, 2, 1));
        assert_eq!(&*renewed(false, "two").0, &format!("{:016x} {:016x} {:016x}*", 3, 2, 1));
        assert_eq!(&*renewed(true, "one").0, &format!("{:016x} {:016x}! {:016x}*", 3, 2, 1));
        assert!(history(KNOWN).is_former_of(&renewed(true, "two")));
        assert!(!renewed(true, "two").is_former_of(&history(KNOWN)));
    }

    /// Life 2 was lost, and only one host remembers it.
    #[test]
    fn a_life_that_the_store_has_lost_is_entered_again() {
        let lost = note("0000000000000001", false);
        let renewed = lost.renewed(3, "two", Some(&history(KNOWN))).history;
        assert_eq!(&*renewed.0, &format!("{:016x} {:016x}* {:016x}*", 3, 1, 2));
        assert!(renewed.includes(&history(KNOWN)));
        assert!(!renewed.was_missed_by(&history(KNOWN), &[], false));
        assert!(renewed.was_missed_by(&history("0000000000000001"), &[], false));
        assert!(!renewed.was_missed_by(&history("0000000000000001"), &[history(KNOWN)], false));
    }

    #[test]
    fn whoever_trusted_a_life_that_lost_commits_has_missed_something() {
        let renewed = note(KNOWN, true).renewed(3, "one", None).history;
        assert!(renewed.was_missed_by(&history(KNOWN), &[history(KNOWN)], false));
        let next = note(&renewed.0, true).renewed(4, "two", None).history;
        assert!(!next.was_missed_by(&renewed, &[], false));
    }

    /// The second fail-over may have lost the first claims of the life in between, and the record of them.
    #[test]
    fn a_life_without_a_record_of_claims_counts_for_a_host_that_was_away() {
        let renewed = note(KNOWN, false).renewed(3, "two", None).history;
        let first = history("0000000000000001");
        assert!(renewed.was_missed_by(&first, &[], true));
        assert!(!renewed.was_missed_by(&first, &[], false), "nobody can have claimed so soon");
        assert!(!renewed.was_missed_by(&first, &[history(KNOWN)], true));
        assert!(!renewed.was_missed_by(&history(KNOWN), &[], true));
    }

    /// Galera reports only a checksum of 16 digits, which looks like a life.
    #[test]
    fn what_an_engine_says_is_no_life() {
        let [was, is] = ["0123456789abcdef ", "fedcba9876543210 "].map(History::without_lives);
        assert_eq!((was.life(), was == is, is.includes(&was)), (None, false, true));
        let words = ["0123456789abcdeg", "0123456789abcdef0", "0123456789abcde"];
        assert!(words.iter().all(|word| history(word).life().is_none()));
    }

    #[test]
    fn the_first_life_continues_leafs_table_alone_until_the_next_life_begins() {
        let [before, after, other] = ["a 1", "a 2", "a 3"].map(History::without_lives);
        let first = Note::first(7, "one", &[before.clone(), after.clone()]);
        let is = first.found("one", Kept::All);
        let continues = |known| is.continues(known);
        assert_eq!([&before, &after, &is].map(continues), [true; 3]);
        assert_eq!([&other, &History::first(7), &History::default()].map(continues), [false; 3]);
        assert_eq!(is.life(), Some("0000000000000007"));
        assert!(!first.found("two", Kept::All).continues(&before));
        let next = first.renewed(8, "two", None).history;
        assert_eq!(&*next.0, &format!("{:016x} {:016x}*", 8, 7));
        assert!(!next.continues(&before) && next.was_missed_by(&before, &[], false));
    }

    #[test]
    fn a_history_stays_short() {
        let mut now = note("0000000000000001", true);
        for life in 2..200 {
            now = Note { settled: true, ..now.renewed(life, "two", None) };
        }
        assert_eq!(now.history.words().count(), LIVES_MAX);
        assert_eq!(now.history.life(), Some("00000000000000c7"));
    }

    #[test]
    fn a_host_finds_its_own_last_write_or_knows_that_it_is_gone() {
        let one = History::first(1);
        let mut proof = Proof::of(&one, 5);
        assert_eq!(proof.check(&one, Some((5, true)), Some(100)), Kept::All);
        assert_eq!(proof.check(&one, Some((4, true)), Some(100)), Kept::Lost);
        assert_eq!(proof.check(&one, None, Some(100)), Kept::Lost);
        assert_eq!(proof.check(&one, Some((5, true)), Some(99)), Kept::Lost);
        // Two attempts whose outcome is unknown: each may have been carried out, and no other.
        assert_eq!((proof.attempt(&one, 5), proof.attempt(&one, 5)), (6, 7));
        for (found, kept) in [(4, Kept::Lost), (5, Kept::All), (7, Kept::All), (8, Kept::Lost)] {
            assert_eq!(proof.check(&one, Some((found, true)), Some(100)), kept);
        }
        assert_eq!(proof.check(&one, Some((7, false)), Some(100)), Kept::All);
        assert_eq!(proof.check(&one, Some((8, false)), Some(100)), Kept::ByAnother);
        proof.confirm(7);
        assert_eq!(proof.check(&one, Some((6, true)), Some(100)), Kept::Lost);
    }

    #[test]
    fn in_a_new_life_nothing_of_the_former_one_must_be_there() {
        let two = history("0000000000000002 0000000000000001*");
        let mut proof = Proof::of(&History::first(1), 5);
        assert_eq!(proof.check(&History::first(1), Some((5, true)), Some(100)), Kept::All);
        assert_eq!(proof.check(&two, Some((3, true)), Some(10)), Kept::All);
        assert!(!proof.is_entered(&two));
        // The former primary lost commits, and answers before the host has entered itself in the new life.
        assert_eq!(proof.check(&History::first(1), Some((4, true)), Some(100)), Kept::Lost);
        let number = proof.attempt(&two, 3);
        proof.confirm(number);
        assert_eq!(number, 6);
        assert!(proof.is_entered(&two));
        assert_eq!(proof.check(&two, Some((5, true)), Some(10)), Kept::Lost);
        assert_eq!(proof.check(&two, Some((6, true)), Some(10)), Kept::All);
    }

    /// The server that took over has writes of a start that the journal has forgotten.
    #[test]
    fn the_first_write_in_a_life_lies_above_what_the_store_has() {
        let two = history(KNOWN);
        let mut proof = Proof::of(&History::first(1), 5);
        let number = proof.attempt(&two, 13);
        proof.confirm(number);
        assert_eq!(proof.check(&two, Some((number, true)), None), Kept::All);
        assert_eq!(proof.check(&two, Some((13, false)), None), Kept::Lost);
        assert_eq!(proof.check(&two, Some((number + 1, false)), None), Kept::ByAnother);
    }
}
