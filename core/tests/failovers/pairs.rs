//! Which events a state machine has met in which states.

use std::collections::BTreeMap;

/// Each pair of a state and an event, with the number of runs in which it was met.
#[derive(Clone, Debug, Default)]
pub struct Pairs(BTreeMap<(&'static str, &'static str), u64>);

/// A state machine.
pub struct Machine<'a> {
    pub states: &'a [&'static str],
    pub events: &'a [&'static str],
    /// Events that not every default run meets in one of these states, and why. `*` stands for all.
    pub excused: &'a [(&'a [&'static str], &'a [&'static str], &'static str)],
}

impl Pairs {
    /// Notes a pair in a run.
    pub fn meet(&mut self, state: &'static str, event: &'static str) {
        self.0.insert((state, event), 1);
    }

    /// How many different events a run has met in a state.
    pub fn met_in(&self, state: &str) -> usize {
        self.0.keys().filter(|(of, _)| *of == state).count()
    }

    /// Adds a run.
    pub fn add(&mut self, run: &Pairs) {
        for (pair, count) in &run.0 {
            *self.0.entry(*pair).or_default() += count;
        }
    }
}

impl Machine<'_> {
    /// How much was met.
    pub fn coverage(&self, met: &Pairs) -> String {
        let all = self.states.len() * self.events.len();
        format!("{} of {all} pairs of a state and an event", met.0.len())
    }

    /// Checks that each pair was met, unless there is a reason why not every default run meets it.
    pub fn assert_all_met(&self, met: &Pairs) {
        for (state, event) in
            self.states.iter().flat_map(|state| self.events.iter().map(move |event| (state, event)))
        {
            let is_excused = self.excused.iter().any(|(states, events, _)| {
                let any = |names: &[&str], name| names.contains(name) || names == ["*"];
                any(states, state) && any(events, event)
            });
            let is_met = met.0.contains_key(&(*state, *event));
            assert!(is_met || is_excused, "{state} never met {event}: {met:#?}");
        }
    }
}
