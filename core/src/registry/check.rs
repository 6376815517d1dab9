//! Which writes a registry may accept, and the outcome of a compare-and-set.

use std::collections::BTreeMap;
use std::time::Duration;

use leafd_wire::Layout;

use super::{CompareAndSet, Entry, HOLDER_BYTES_MAX, LeaseRecord, RegistryError, RegistryId};
use crate::{Tag, UnixMs, WorkerId};

/// The last instant that registries can hold: they store milliseconds as positive signed 64-bit numbers.
pub const INSTANT_MAX: UnixMs = UnixMs(i64::MAX as u64);

/// Checks a holder's id or name, or an incarnation. `what` names it in errors.
///
/// # Errors
/// Describes the given value and what is allowed.
pub fn check_id(what: &str, text: &str) -> Result<(), String> {
    let allowed = 1..=HOLDER_BYTES_MAX;
    if allowed.contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Ok(());
    }
    let shown: String = text.chars().take(HOLDER_BYTES_MAX + 1).collect();
    Err(format!(
        "its {what} is {shown:?}; allowed: 1 to {HOLDER_BYTES_MAX} printable ASCII characters without spaces"
    ))
}

/// The layouts that a registry must still record, by name and definition, given those that it has.
///
/// # Errors
/// [`RegistryError::Refused`] if a layout is recorded with another definition. The text shows both.
pub fn new_layouts(
    recorded: &BTreeMap<String, String>,
    layouts: &[(Tag, Layout)],
) -> Result<BTreeMap<String, String>, RegistryError> {
    let mut new = BTreeMap::new();
    for (name, layout) in layouts {
        let (name, ours) = (name.as_str(), definition(layout));
        match recorded.get(name).or_else(|| new.get(name)) {
            Some(theirs) if *theirs == ours => {}
            Some(theirs) => {
                return Err(RegistryError::Refused(
                    format!(
                        "layout {name:?} is recorded in the worker registry as {theirs}, but is configured as {ours}. \
                         It must be the same on all hosts: correct the configuration, or give the layout another name"
                    )
                    .into(),
                ));
            }
            None => _ = new.insert(name.to_owned(), ours),
        }
    }
    Ok(new)
}

/// The whole layout as registries record it. The form is canonical: equal texts are equal layouts.
fn definition(layout: &Layout) -> String {
    let Layout { time_bits, worker_bits, sequence_bits, unit_ms, epoch_ms } = layout;
    format!(
        "time_bits={time_bits} worker_bits={worker_bits} sequence_bits={sequence_bits} unit_ms={unit_ms} \
         epoch_ms={epoch_ms}"
    )
}

impl RegistryId {
    /// Checks that this is the registry that the caller trusts.
    ///
    /// # Errors
    /// [`RegistryError::Changed`].
    pub fn check(&self, under: &RegistryId) -> Result<(), RegistryError> {
        if self == under {
            return Ok(());
        }
        Err(RegistryError::Changed { expected: under.clone(), found: self.clone() })
    }
}

impl LeaseRecord {
    /// Checks the write against the documented ranges.
    ///
    /// # Errors
    /// [`RegistryError::Refused`] with the value that is wrong.
    pub fn check(&self, worker: Option<WorkerId>) -> Result<(), RegistryError> {
        let Some(holder) = &self.holder else { return Ok(()) };
        check_id("holder id", &holder.id)
            .and_then(|()| check_id("name", &holder.name))
            .and_then(|()| check_id("incarnation", &holder.incarnation.0))
            .map_err(|odd| {
                let worker =
                    worker.map_or("a worker".to_owned(), |worker| format!("worker {worker}"));
                RegistryError::Refused(
                    format!("{worker} can't be recorded for this holder: {odd}").into(),
                )
            })
    }
}

impl CompareAndSet {
    /// The outcome of this write, given the recorded entry and the registry's clock.
    ///
    /// # Errors
    /// [`RegistryError::Conflict`]; else [`RegistryError::TooFarAhead`].
    pub fn judge(&self, found: Option<Entry>, now: UnixMs) -> Result<(), RegistryError> {
        if found.as_ref().map(|entry| &entry.holding) != self.expected.as_ref() {
            return Err(RegistryError::Conflict {
                worker: self.worker,
                found: found.map(Box::new),
            });
        }
        let bound = self.next.expires;
        if bound > latest(now, self.ahead_max) {
            return Err(RegistryError::TooFarAhead { now, bound });
        }
        Ok(())
    }
}

/// The latest expiry that is not too far ahead.
fn latest(now: UnixMs, ahead_max: Duration) -> UnixMs {
    let ahead_ms = u64::try_from(ahead_max.as_millis()).unwrap_or(u64::MAX);
    UnixMs(now.0.saturating_add(ahead_ms)).min(INSTANT_MAX)
}

#[cfg(test)]
mod tests {
    use super::super::Holder;
    use super::*;

    #[test]
    fn no_bound_is_beyond_what_registries_hold() {
        assert_eq!(latest(UnixMs(5), Duration::from_millis(7)), UnixMs(12));
        assert_eq!(latest(UnixMs(5), Duration::MAX), INSTANT_MAX);
        assert_eq!(latest(UnixMs(u64::MAX), Duration::ZERO), INSTANT_MAX);
    }

    #[test]
    fn a_write_succeeds_if_the_entry_is_as_expected_and_the_bound_is_near() {
        let record = |expires| LeaseRecord { holder: None, expires: UnixMs(expires) };
        let write = |expected, bound, found: Option<u64>| {
            let (worker, seen, ahead_max) = (WorkerId(1), UnixMs(0), Duration::from_millis(5));
            let (expected, next) = (Option::map(expected, record), record(bound));
            let found = found.map(|expires| {
                let holding = record(expires);
                Entry { worker, holding, seen, written: seen }
            });
            CompareAndSet { worker, expected, next, seen, ahead_max }.judge(found, UnixMs(100))
        };
        assert!(write(Some(7), 105, Some(7)).is_ok() && write(None, 105, None).is_ok());
        for (expected, found) in [(None, Some(7)), (Some(7), None), (Some(7), Some(8))] {
            assert!(matches!(write(expected, 1, found), Err(RegistryError::Conflict { .. })));
        }
        assert!(matches!(write(None, 106, None), Err(RegistryError::TooFarAhead { .. })));
        let [one, other] = ["1", "2"].map(|history| RegistryId {
            id: crate::store::StoreId("r".into()),
            history: crate::store::History(history.into()),
        });
        assert!(one.check(&one).is_ok());
        let changed = one.check(&other).unwrap_err().to_string();
        assert_eq!(
            changed,
            "the worker registry is now r with history 1 instead of r with history 2"
        );
        let registry = "r".to_owned();
        let cause = crate::store::Reason::new(crate::store::Why::Login, "no");
        let why = RegistryError::Unavailable { registry, cause }.why();
        assert_eq!(why, crate::store::Why::Login);
    }

    #[test]
    fn a_holder_s_names_are_checked_before_they_are_recorded() {
        let incarnation = crate::store::StartToken("1".into());
        let good = Holder { id: "h".into(), name: "n".into(), incarnation };
        let check = |holder| LeaseRecord { holder, expires: UnixMs(0) }.check(Some(WorkerId(7)));
        assert!(check(None).is_ok() && check(Some(good.clone())).is_ok());
        let incarnation = crate::store::StartToken("".into());
        for (bad, what) in [
            (
                Holder { id: "h h".into(), ..good.clone() },
                "worker 7 can't be recorded for this holder: its holder id is",
            ),
            (Holder { name: "".into(), ..good.clone() }, "its name is"),
            (Holder { incarnation, ..good }, "its incarnation is"),
        ] {
            let said = check(Some(bad)).unwrap_err().to_string();
            assert!(said.contains(what), "{said}");
        }
    }

    #[test]
    fn a_layout_is_recorded_once_and_never_with_another_definition() {
        let tag = Tag::parse(b"t").unwrap();
        let other = Layout { unit_ms: 10, ..Layout::LEAF };
        let new = new_layouts(&BTreeMap::new(), &[(tag.clone(), Layout::LEAF)]).unwrap();
        let text = "time_bits=41 worker_bits=10 sequence_bits=12 unit_ms=1 epoch_ms=1288834974657";
        assert_eq!(new, BTreeMap::from([("t".to_owned(), text.to_owned())]));
        assert!(new_layouts(&new, &[(tag.clone(), Layout::LEAF)]).unwrap().is_empty());
        new_layouts(&new, &[(tag, other)]).unwrap_err();
    }

    #[test]
    fn ids_are_printable_and_not_too_long() {
        let longest = "i".repeat(HOLDER_BYTES_MAX);
        for good in ["a", "10.0.0.1:8080", "[::1]:80", &longest] {
            check_id("name", good).unwrap();
        }
        for bad in ["", " ", "a b", "a\n", "\0", "é", &format!("{longest}i")] {
            let words = check_id("name", bad).unwrap_err();
            assert!(words.contains("name") && words.contains("255"), "{words}");
        }
        let shown = check_id("name", &"x".repeat(999)).unwrap_err();
        assert_eq!(shown.matches('x').count(), HOLDER_BYTES_MAX + 1);
    }
}
