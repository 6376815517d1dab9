//! Answers with the times at which they were requested and received, on one clock. Checks strict order: no later
//! answer may have a smaller id than an earlier one.

use std::time::Instant;

/// One answer: the first and the last of its ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    pub asked: Instant,
    pub answered: Instant,
    pub first: u64,
    pub last: u64,
}

/// Two answers that break the order: the second was requested after the first was received, but its ids are not larger.
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
