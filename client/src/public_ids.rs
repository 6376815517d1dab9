//! Public ids, which outsiders see instead of dense ids.

use std::sync::Arc;
use std::time::Duration;

use leafd_wire::mask::MASKS_MAX;
use leafd_wire::{Malformed, MaskForm, MaskItems, MaskReply, MaskRequest, opcode};

use crate::core::Core;
use crate::error::{Error, Result};

/// The public ids of one tag in one form: numbers of a given width, or the same numbers as text.
///
/// A public id reveals neither how many ids there are nor their order. Only daemons with the key can turn a dense id
/// into a public one, or back. Both directions must use the same form.
///
/// ```no_run
/// # fn main() -> Result<(), leafd_client::Error> {
/// # let client = leafd_client::Client::connect(leafd_client::default_socket_path())?;
/// let orders = client.public_ids("orders").prefix("ord");
/// let shown = orders.mask_text(&[17, 18])?; // such as ord_16dsky4r4xzza8d
/// assert_eq!(orders.unmask_text(&shown)?, [17, 18]);
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct PublicIds {
    core: Arc<Core>,
    tag: Box<str>,
    prefix: Box<str>,
    bits: u8,
    key: u8,
    limit: Option<Duration>,
}

impl PublicIds {
    pub(crate) fn new(core: &Arc<Core>, tag: &str, limit: Option<Duration>) -> Self {
        let (core, tag, prefix) = (Arc::clone(core), tag.into(), "".into());
        PublicIds { core, tag, prefix, bits: 63, key: 0, limit }
    }

    /// Sets the width of dense and public ids in bits, from 20 to 63. Default: 63. Use 53 for JavaScript's numbers.
    pub fn bits(&self, bits: u8) -> Self {
        PublicIds { bits, ..self.clone() }
    }

    /// Sets the prefix of texts, before a `_`: a letter, then `a` to `z`, `0` to `9` or `_`, at most 32 characters.
    /// Default: none.
    pub fn prefix(&self, prefix: &str) -> Self {
        PublicIds { prefix: prefix.into(), ..self.clone() }
    }

    /// Sets the number of the key, from 1 to 31. Default: 0, the daemon's current key. Texts contain the number of
    /// their key.
    pub fn key(&self, key: u8) -> Self {
        PublicIds { key, ..self.clone() }
    }

    /// Returns the public ids of dense ids, as numbers. Numbers don't contain the number of their key. Once a new key
    /// is in use, they are converted back to the wrong ids unless the caller passes the number of the old key.
    ///
    /// # Errors
    /// [`Error::Service`] with [`leafd_wire::Status::ValueRefused`] for an id that doesn't fit the bits, with
    /// [`leafd_wire::Status::MaskKey`] if the daemon has no key or a wrong one, and with [`leafd_wire::Status::Denied`]
    /// if the user may not mask and unmask; otherwise any [`Error`] of the connection or the daemon.
    pub fn mask(&self, ids: &[u64]) -> Result<Vec<u64>> {
        self.convert(opcode::MASK, false, ids, |ids| MaskItems::Numbers(ids), numbers)
    }

    /// Returns the dense ids of public ids.
    ///
    /// # Errors
    /// Same as [`PublicIds::mask`].
    pub fn unmask(&self, ids: &[u64]) -> Result<Vec<u64>> {
        self.convert(opcode::UNMASK, false, ids, |ids| MaskItems::Numbers(ids), numbers)
    }

    /// Returns the public ids of dense ids, as text.
    ///
    /// # Errors
    /// Same as [`PublicIds::mask`].
    pub fn mask_text(&self, ids: &[u64]) -> Result<Vec<String>> {
        let texts = |reply: MaskReply<'_>| Ok(reply.texts()?.map(str::to_owned).collect());
        self.convert(opcode::MASK, true, ids, |ids| MaskItems::Numbers(ids), texts)
    }

    /// Returns the dense ids of public ids given as text.
    ///
    /// # Errors
    /// Same as [`PublicIds::mask`]; [`leafd_wire::Status::ValueRefused`] also for text that is not a public id of this
    /// form, because it was mistyped or made up.
    pub fn unmask_text<T: AsRef<str>>(&self, texts: &[T]) -> Result<Vec<u64>> {
        let texts: Vec<&[u8]> = texts.iter().map(|text| text.as_ref().as_bytes()).collect();
        self.convert(opcode::UNMASK, true, &texts, |texts| MaskItems::Texts(texts), numbers)
    }

    /// Splits the items into requests of the largest size. Each answer has as many items as its request.
    fn convert<T, U>(
        &self,
        opcode: u8,
        is_text: bool,
        items: &[T],
        wrap: impl Fn(&[T]) -> MaskItems<'_>,
        read: impl Fn(MaskReply<'_>) -> std::result::Result<Vec<U>, Malformed>,
    ) -> Result<Vec<U>> {
        for (what, length) in [("tag", self.tag.len()), ("prefix", self.prefix.len())] {
            if length > LENGTH_MAX {
                return Err(Error::invalid(format!("a {what} of {length} bytes is too long")));
            }
        }
        let form = MaskForm {
            tag: self.tag.as_bytes(),
            bits: self.bits,
            key: self.key,
            prefix: is_text.then_some(self.prefix.as_bytes()),
        };
        let mut deadline = self.core.deadline(self.limit);
        let mut all = Vec::with_capacity(items.len());
        for some in items.chunks(BATCH) {
            let body = MaskRequest::body(&form, wrap(some));
            let reply = self.core.ask(opcode, form.flags(), &body, true, &mut deadline)?;
            let answer = MaskReply::decode(&reply).and_then(&read);
            let answer = answer.map_err(|error| Error::protocol(error.what))?;
            if answer.len() != some.len() {
                let what = format!("{} ids in reply to a request for {}", answer.len(), some.len());
                return Err(Error::protocol(what));
            }
            all.extend(answer);
        }
        Ok(all)
    }
}

/// The maximum length of a tag or prefix, in bytes. It is longer than any valid one, and still fits a frame with the
/// largest batch.
const LENGTH_MAX: usize = 1024;

fn numbers(reply: MaskReply<'_>) -> std::result::Result<Vec<u64>, Malformed> {
    Ok(reply.numbers()?.collect())
}

/// The maximum number of ids in a request. A text takes up to 256 bytes in a request, so 240 always fit a frame.
const BATCH: usize = if MASKS_MAX < 240 { MASKS_MAX } else { 240 };
