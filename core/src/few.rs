//! Lists that mostly have one element. There may be a hundred thousand of them, and what has a place of its own in
//! memory takes twice as much.

use std::collections::VecDeque;
use std::ops::{Deref, DerefMut};

/// A list of a fixed length, from 1. A single element lies in the list itself.
#[derive(Clone, Debug)]
pub enum Few<T> {
    /// One element.
    One(T),
    /// Any other number.
    More(Box<[T]>),
}

/// A line of which the first element lies in the line itself.
#[derive(Debug)]
pub(crate) struct Line<T> {
    first: Option<T>,
    /// None while there is nothing behind the first one.
    #[expect(clippy::box_collection, reason = "an empty line takes no more than a pointer")]
    rest: Option<Box<VecDeque<T>>>,
}

// === impl Few ===

impl<T> FromIterator<T> for Few<T> {
    fn from_iter<I: IntoIterator<Item = T>>(elements: I) -> Self {
        let mut elements: Vec<T> = elements.into_iter().collect();
        match (elements.len(), elements.pop()) {
            (1, Some(one)) => Few::One(one),
            (_, last) => {
                elements.extend(last);
                Few::More(elements.into())
            }
        }
    }
}

impl<T> Deref for Few<T> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        match self {
            Few::One(one) => std::slice::from_ref(one),
            Few::More(more) => more,
        }
    }
}

impl<T> DerefMut for Few<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [T] {
        match self {
            Few::One(one) => std::slice::from_mut(one),
            Few::More(more) => more,
        }
    }
}

// === impl Line ===

impl<T> Line<T> {
    #[inline]
    pub(crate) fn front(&self) -> Option<&T> {
        self.first.as_ref()
    }

    #[inline]
    pub(crate) fn front_mut(&mut self) -> Option<&mut T> {
        self.first.as_mut()
    }

    pub(crate) fn push_back(&mut self, element: T) {
        match self.first {
            None => self.first = Some(element),
            Some(_) => self.rest.get_or_insert_default().push_back(element),
        }
    }

    pub(crate) fn pop_front(&mut self) -> Option<T> {
        let next = self.rest.as_mut().and_then(|rest| rest.pop_front());
        if self.rest.as_ref().is_some_and(|rest| rest.is_empty()) {
            self.rest = None;
        }
        std::mem::replace(&mut self.first, next)
    }

    pub(crate) fn len(&self) -> usize {
        self.iter().count()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.first.iter().chain(self.rest.iter().flat_map(|rest| rest.iter()))
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.first.iter_mut().chain(self.rest.iter_mut().flat_map(|rest| rest.iter_mut()))
    }

    /// Keeps the elements that `stays` picks out, in their order.
    pub(crate) fn retain_mut(&mut self, mut stays: impl FnMut(&mut T) -> bool) {
        let (first, rest) = (self.first.take(), self.rest.take());
        for mut element in first.into_iter().chain(rest.into_iter().flat_map(|rest| *rest)) {
            if stays(&mut element) {
                self.push_back(element);
            }
        }
    }
}

impl<T> Default for Line<T> {
    fn default() -> Self {
        Line { first: None, rest: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_elements_are_those_that_were_given() {
        for count in 0..4 {
            let few: Few<usize> = (0..count).collect();
            assert!(few.iter().copied().eq(0..count), "{few:?}");
            assert_eq!(matches!(few, Few::One(_)), count == 1);
        }
    }

    #[test]
    fn a_line_is_a_queue() {
        let (mut line, mut queue) = (Line::default(), VecDeque::new());
        for step in 0..1_000_u32 {
            match step % 7 {
                0 | 1 | 3 | 4 => {
                    line.push_back(step);
                    queue.push_back(step);
                }
                6 if step % 5 == 0 => {
                    line.retain_mut(|element| *element % 3 != 0);
                    queue.retain_mut(|element| *element % 3 != 0);
                }
                _ => assert_eq!(line.pop_front(), queue.pop_front()),
            }
            if step % 100 > 80 {
                assert_eq!(
                    (line.pop_front(), line.pop_front()),
                    (queue.pop_front(), queue.pop_front())
                );
            }
            assert_eq!(line.front(), queue.front());
            assert_eq!(line.len(), queue.len());
            assert!(line.iter().eq(queue.iter()) && line.iter_mut().eq(queue.iter_mut()));
        }
    }
}
