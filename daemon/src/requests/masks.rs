//! MASK and UNMASK: turn dense ids into public ones and back.

use std::rc::Rc;

use leafd_wire::tag::check_tag;
use leafd_wire::{Header, MaskForm, MaskReply, MaskRequest, Status, opcode};

use super::tags::refused;
use super::{Dispatcher, PeerRequest};
use crate::engine::masks::mask_key;
use crate::reply::Failure;
use leafd_core::Tag;
use leafd_core::mask::{KeyNumber, Mask, MaskBits, MaskKey, MaskKeys, Prefix, PublicText};

/// A request whose fields were checked, but not its ids. It outlives the request's frame.
struct Conversion {
    tag: Tag,
    bits: MaskBits,
    /// The key to use; `None` for the current one.
    key: Option<KeyNumber>,
    prefix: Option<String>,
    what: What,
}

enum What {
    Mask(Vec<u64>),
    Unmask(Vec<u64>),
    UnmaskTexts(Vec<Vec<u8>>),
}

impl Dispatcher {
    /// Answers immediately if the store has confirmed the keys, otherwise once it has.
    pub(super) fn mask(self: &Rc<Self>, request: &PeerRequest<'_>) -> Result<(), Failure> {
        let PeerRequest { session, header, body } = *request;
        let work = Conversion::parse(header, body)?;
        if !self.access.borrow().may_unmask(work.tag.as_str(), &session.peer) {
            return Err(Failure::new(
                Status::Denied,
                format!(
                    "uid {} may neither mask nor unmask ids of tag {:?}: that requires root, the daemon's own user, an \
                     administrator, or a user or group in unmask_uids or unmask_gids of an access rule",
                    session.peer.uid, work.tag
                ),
            ));
        }
        if let Some(keys) = self.masks.confirmed() {
            session.outbox.body(header, &work.run(&keys)?);
            return Ok(());
        }
        self.masks.keys()?;
        let masks = Rc::clone(&self.masks);
        request.answer_later(async move { work.run(&*masks.confirm().await?) });
        Ok(())
    }
}

impl Conversion {
    fn parse(header: &Header, body: &[u8]) -> Result<Conversion, Failure> {
        let request = MaskRequest::decode(header, body)?;
        let MaskForm { tag, bits, key, prefix } = request.form;
        let what = match (header.opcode, prefix) {
            (opcode::MASK, _) => What::Mask(request.numbers().collect()),
            (_, None) => What::Unmask(request.numbers().collect()),
            (_, Some(_)) => What::UnmaskTexts(request.texts().map(<[u8]>::to_vec).collect()),
        };
        check_tag(tag)?;
        let bits = MaskBits::new(bits).ok_or_else(|| {
            refused(format!(
                "public ids have {} to {} bits, not {bits}",
                MaskBits::MIN,
                MaskBits::MAX
            ))
        })?;
        let key = match key {
            0 => None,
            number => Some(KeyNumber::new(number).ok_or_else(|| {
                refused(format!("mask keys are numbered from 1 to 31; there is no key {number}"))
            })?),
        };
        let prefix = prefix.map(|prefix| match std::str::from_utf8(prefix) {
            Ok(text) if Prefix::new(text).is_some() => Ok(text.to_owned()),
            _ => Err(refused(format!(
                "{:?} is not a valid prefix: it must have 1 to 32 of the characters a to z, 0 to 9 and _, begin with a \
                 letter, and not end with _",
                String::from_utf8_lossy(prefix)
            ))),
        });
        Ok(Conversion { tag: Tag::parse(tag)?, bits, key, prefix: prefix.transpose()?, what })
    }

    /// The body of the answer.
    fn run(&self, keys: &MaskKeys) -> Result<Vec<u8>, Failure> {
        match &self.what {
            What::Mask(ids) => {
                let key = self.key(keys)?;
                let mut ids = ids.clone();
                self.of(key).mask_all(&mut ids).map_err(|error| refused(error.to_string()))?;
                let Some(prefix) = self.prefix() else { return Ok(MaskReply::of_numbers(&ids)) };
                let text = |id| PublicText { key: key.number, id }.encode(prefix, self.bits);
                Ok(MaskReply::of_texts(&ids.into_iter().map(text).collect::<Vec<_>>()))
            }
            What::Unmask(ids) => {
                let mut ids = ids.clone();
                let mask = self.of(self.key(keys)?);
                mask.unmask_all(&mut ids).map_err(|error| refused(error.to_string()))?;
                Ok(MaskReply::of_numbers(&ids))
            }
            What::UnmaskTexts(texts) => {
                let ids: Result<Vec<u64>, Failure> =
                    texts.iter().map(|text| self.unmask_text(keys, text)).collect();
                Ok(MaskReply::of_numbers(&ids?))
            }
        }
    }

    fn unmask_text(&self, keys: &MaskKeys, text: &[u8]) -> Result<u64, Failure> {
        let wrong = |cause: &dyn std::fmt::Display| {
            let shown = String::from_utf8_lossy(text);
            refused(format!("{shown:?} is not a public id of tag {:?}: {cause}", self.tag))
        };
        let prefix = self.prefix().unwrap_or_default();
        let found = PublicText::decode(text, prefix, self.bits).map_err(|cause| wrong(&cause))?;
        // Users can invent a text that names any key, so an unknown key is an error of the text, not a fault of this
        // host.
        let key = keys.get(found.key).ok_or_else(|| {
            wrong(&format_args!("it names mask key {}, which this daemon doesn't have", found.key))
        })?;
        self.of(key).unmask(found.id).map_err(|cause| wrong(&cause))
    }

    fn key<'a>(&self, keys: &'a MaskKeys) -> Result<&'a MaskKey, Failure> {
        match self.key {
            None => Ok(keys.current()),
            Some(number) => keys
                .get(number)
                .ok_or_else(|| mask_key(format!("this daemon has no mask key {number}"))),
        }
    }

    fn of(&self, key: &MaskKey) -> Mask {
        Mask::new(key, &self.tag, self.bits)
    }

    fn prefix(&self) -> Option<Prefix<'_>> {
        Prefix::new(self.prefix.as_deref()?)
    }
}
