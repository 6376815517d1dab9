//! Masked tags: the daemon doesn't issue the claimed numbers themselves, but their masked forms.
//!
//! The first claim shows that a tag is masked, before any of its ids is held. The journal records its segments as used
//! up from the beginning. So after a start the daemon never holds ids of a tag without knowing that they are masked.

use std::rc::Rc;

use leafd_wire::{Header, Run, Status};

use super::{SegmentTag, Segments, hold_ms};
use crate::engine::masks::mask_key;
use crate::reply::Failure;
use crate::reply::outbox::{Outbox, ReplyTo};
use leafd_core::Want;
use leafd_core::mask::{Mask, Masking};

/// The maximum number of ids of a masked tag in a request, because each takes a separate run in the reply.
pub const MASKED_COUNT_MAX: u32 = 10_000;

/// How a tag's numbers become ids, as far as is known.
#[derive(Debug, Default)]
pub(super) enum Form {
    /// The numbers are the ids, or no number has been claimed yet.
    #[default]
    Plain,
    /// A mask turns them into ids: this one, or one whose key this host lacks.
    Masked(Box<(Masking, Option<Rc<Mask>>)>),
}

impl Segments {
    /// Remembers how a claim's numbers become ids.
    ///
    /// # Errors
    /// This host can't turn the numbers into ids.
    pub(super) fn note_form(
        &self,
        tag: &SegmentTag,
        masked: Option<Masking>,
    ) -> Result<(), Failure> {
        let Some(masking) = masked else {
            *tag.form.borrow_mut() = Form::Plain;
            return Ok(());
        };
        if let Form::Masked(known) = &*tag.form.borrow()
            && known.0 == masking
            && known.1.is_some()
        {
            return Ok(());
        }
        if tag.shards.len() > 1 {
            return Err(Failure::new(
                Status::StoreRefused,
                format!(
                    "tag {:?} is masked, but tags in independent primaries can't be",
                    tag.tag.as_str()
                ),
            ));
        }
        *tag.form.borrow_mut() = Form::Masked(Box::new((masking, None)));
        let mask = masking
            .mask(&tag.tag, self.masks.any().as_deref())
            .map_err(|cause| mask_key(format!("tag {:?}: {cause}", tag.tag.as_str())))?;
        *tag.form.borrow_mut() = Form::Masked(Box::new((masking, Some(Rc::new(mask)))));
        Ok(())
    }

    /// An error if the tag's key is still missing, because then no ids of it are claimed.
    pub(super) fn lacks_key(&self, tag: &SegmentTag) -> Option<Failure> {
        let lacking = match &*tag.form.borrow() {
            Form::Masked(masked) if masked.1.is_none() => masked.0,
            _ => return None,
        };
        self.note_form(tag, Some(lacking)).err()
    }

    /// Answers a request that waited.
    pub(super) fn answer(&self, tag: &SegmentTag, reply: ReplyTo, hold_ms: u32, runs: &[Run]) {
        reply.given(tag.trace_key, runs);
        match tag.mask_of(runs) {
            Ok(None) => reply.ids(hold_ms, runs),
            Ok(Some(mask)) => reply.masked(mask, runs),
            Err(failure) => reply.failure(&failure),
        }
    }
}

impl SegmentTag {
    /// Whether the tag's numbers are masked, as far as is known.
    pub fn is_masked(&self) -> bool {
        matches!(&*self.form.borrow(), Form::Masked(masked) if masked.1.is_some())
    }

    /// Limits a request for a masked tag's ids. A process that wants to hold ids gets one, because each is sent
    /// separately anyway.
    ///
    /// # Errors
    /// The request is for more ids than fit into a reply.
    pub fn limit(&self, want: Want) -> Result<Want, Failure> {
        match want {
            want if !self.is_masked() => Ok(want),
            Want { allow_partial: true, .. } => Ok(Want { count: 1, allow_partial: true }),
            Want { count, .. } if count > MASKED_COUNT_MAX => Err(too_many(count.into())),
            want => Ok(want),
        }
    }

    /// Answers a request with issued numbers, or rather with the ids that they become.
    ///
    /// # Errors
    /// The numbers can't be turned into ids, and are lost.
    pub fn put_ids(&self, outbox: &Outbox, header: &Header, runs: &[Run]) -> Result<(), Failure> {
        match self.mask_of(runs)? {
            None => outbox.ids(header, hold_ms(&self.allocator.borrow()), runs),
            Some(mask) => outbox.masked(header, mask, runs),
        }
        Ok(())
    }

    /// The conversion of these issued numbers into ids; `None` if they are the ids themselves.
    ///
    /// # Errors
    /// The numbers can't be turned into ids, and are lost.
    fn mask_of(&self, runs: &[Run]) -> Result<Option<Rc<Mask>>, Failure> {
        let form = self.form.borrow();
        let mask = match &*form {
            Form::Plain => return Ok(None),
            Form::Masked(masked) => masked.1.as_ref().ok_or_else(|| {
                mask_key(format!(
                    "tag {:?} is masked with key {}, which this host doesn't have; set mask_key_file to a copy of the \
                     other hosts' file",
                    self.tag.as_str(),
                    masked.0.key
                ))
            })?,
        };
        let count: u64 = runs.iter().map(|run| u64::from(run.count)).sum();
        if count > u64::from(MASKED_COUNT_MAX) {
            return Err(too_many(count));
        }
        for run in runs {
            mask.check(&[run.first, run.end() - 1]).map_err(|cause| {
                Failure::new(Status::StoreRefused, format!("tag {:?}: {cause}", self.tag.as_str()))
            })?;
        }
        Ok(Some(Rc::clone(mask)))
    }
}

fn too_many(count: u64) -> Failure {
    Failure::new(
        Status::CountInvalid,
        format!("a request can draw at most {MASKED_COUNT_MAX} ids of a masked tag, not {count}"),
    )
}
