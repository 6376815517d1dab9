//! Answers with the times at which they were asked for and came, on the test's one clock, and whether a later one
//! overtook an earlier one: what strict order means to those who ask.

use std::time::Instant;

/// One answer: the first and the last of its ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    pub asked: Instant,
    pub answered: Instant,
    pub first: u64,
    pub last: u64,
}

/// Two answers of which the later one, asked for when the first had come, is not the larger.
pub fn overtaken(answers: &[Answer]) -> Option<(Answer, Answer)> {
    let mut by_asked = answers.to_vec();
    let mut by_answered = answers.to_vec();
    by_asked.sort_unstable_by_key(|one| one.asked);
    by_answered.sort_unstable_by_key(|one| one.answered);
    let mut before = by_answered.into_iter().peekable();
    let mut largest: Option<Answer> = None;
    for later in by_asked {
        while let Some(earlier) = before.next_if(|one| one.answered < later.asked) {
            if largest.is_none_or(|known| known.last < earlier.last) {
                largest = Some(earlier);
            }
        }
        if let Some(earlier) = largest.filter(|earlier| earlier.last >= later.first) {
            return Some((earlier, later));
        }
    }
    None
}
