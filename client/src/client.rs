//! The client's public calls.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use leafd_wire::text::clean;
use leafd_wire::{InfoReply, Layout, Parts, REQUEST_LENGTH_MAX, opcode};

use crate::builder::Builder;
use crate::core::Core;
use crate::deadline::Deadline;
use crate::error::{Error, Result};
use crate::held::{next, next_slow};
use crate::ids::Ids;
use crate::paths::{check_socket_path, default_socket_path};
use crate::pipeline::Pipeline;
use crate::public_ids::PublicIds;
use crate::series::Series;
use crate::tag::Tag;

/// A client of the daemon on this host, for all threads of a process. Forked children can use it too, each with its own
/// connections.
///
/// Clones are cheap and share everything. All calls block, but no longer than their deadline (plus 250 ms for the
/// daemon's error to arrive), unless the client [waits](Builder::wait) for the daemon. Each waiting call has its own
/// connection. A client has at most 32 connections, and further calls wait for one.
#[derive(Clone, Debug)]
pub struct Client {
    pub(crate) core: Arc<Core>,
    /// The time limit of each call; `None`: the builder's.
    limit: Option<Duration>,
}

/// The parts of a snowflake id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decoded {
    /// The time (in ticks), worker and sequence.
    pub parts: Parts,
    /// The start of the tick, in milliseconds of Unix time.
    pub unix_ms: u64,
}

/// Decodes a snowflake id by its layout (see [`Client::layout`]).
///
/// # Errors
/// [`Error::InvalidArgument`] for an id with bits that the layout doesn't have.
///
/// ```
/// use leafd_client::{Layout, decode};
///
/// let decoded = decode((1000 << 22) | (17 << 12) | 5, &Layout::LEAF)?;
/// assert_eq!((decoded.parts.worker, decoded.parts.sequence), (17, 5));
/// assert_eq!(decoded.unix_ms, 1_288_834_975_657);
/// # Ok::<(), leafd_client::Error>(())
/// ```
pub fn decode(id: u64, layout: &Layout) -> Result<Decoded> {
    let parts = layout
        .decompose(id)
        .map_err(|error| Error::invalid(format!("{id} can't be an id of this layout: {error}")))?;
    Ok(Decoded { parts, unix_ms: layout.tick_start_ms(parts.tick) })
}

// === impl Client ===

impl Client {
    /// Connects to the daemon at `path` immediately, and negotiates the protocol version.
    ///
    /// # Errors
    /// [`Error::Connect`] if no daemon answers there, or the errors of [`Client::info`].
    ///
    /// ```no_run
    /// # fn main() -> Result<(), leafd_client::Error> {
    /// let client = leafd_client::Client::connect(leafd_client::default_socket_path())?;
    /// let order_id = client.next("orders")?;
    /// # Ok(()) }
    /// ```
    pub fn connect(path: impl Into<PathBuf>) -> Result<Client> {
        let client = Client::builder().socket(path).build()?;
        client.info()?;
        Ok(client)
    }

    /// Returns a builder for a client with other settings, or for one that connects on first use.
    pub fn builder() -> Builder {
        Builder::new()
    }

    /// Returns a client that shares everything, but limits each call to `limit` (see [`Builder::deadline`]). Its calls
    /// don't [wait](Builder::wait) for a missing daemon. The limit also applies to handles, pipelines, series and
    /// public ids created from it.
    ///
    /// ```no_run
    /// # fn main() -> Result<(), leafd_client::Error> {
    /// # let client = leafd_client::Client::builder().build()?;
    /// let soon = client.within(std::time::Duration::from_millis(50));
    /// let order_id = soon.next("orders")?;
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn within(&self, limit: Duration) -> Client {
        Client { core: Arc::clone(&self.core), limit: Some(limit) }
    }

    /// Returns the next id of `tag`: a unique, positive signed 64-bit number.
    ///
    /// Most calls return an id from a run that the process holds, without a system call. Ids are then not in
    /// chronological order across threads and processes. [`Client::tag`] avoids looking up the name.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] for an invalid tag name (valid names have 1 to 128 characters, none of them a control
    /// character), or any other [`Error`] if the call fails.
    #[inline]
    pub fn next(&self, tag: &str) -> Result<u64> {
        let entry = self.core.entry(tag)?;
        next(&self.core, entry, self.core.holds, self.limit)
    }

    /// Draws the next id of `tag` directly, with a separate request. It is higher than any id drawn directly on this
    /// host before.
    ///
    /// # Errors
    /// Same as [`Client::next`].
    pub fn next_direct(&self, tag: &str) -> Result<u64> {
        next_slow(&self.core, self.core.entry(tag)?, false, &mut self.deadline())
    }

    /// Draws `count` ids of `tag` from the daemon, in the order of issue.
    ///
    /// `count`: 0 to [`crate::BATCH_MAX`]. More than [`crate::COUNT_MAX`] ids take several requests, one after another.
    /// For zero ids, no request is sent.
    ///
    /// # Errors
    /// Same as [`Client::next`]. If one of several requests fails, the ids of the others are skipped.
    pub fn next_batch(&self, tag: &str, count: u64) -> Result<Ids> {
        self.core.draw_batch(tag, count, &mut self.deadline())
    }

    /// Returns a handle for drawing many ids of `tag`. This does not check whether the tag exists.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] for an invalid tag name, or if this client has used [`crate::TAGS_MAX`] other tags.
    pub fn tag(&self, tag: &str) -> Result<Tag> {
        Tag::new(&self.core, tag, self.limit)
    }

    /// Returns a converter between a tag's dense ids and public ids.
    pub fn public_ids(&self, tag: &str) -> PublicIds {
        PublicIds::new(&self.core, tag, self.limit)
    }

    /// Returns a handle for drawing document numbers of a series.
    pub fn series(&self, name: &str) -> Series {
        Series::new(&self.core, name, self.limit)
    }

    /// Returns a queue of requests, which sends many requests before it reads their answers.
    pub fn pipeline(&self) -> Pipeline {
        Pipeline::new(&self.core, self.limit)
    }

    /// Returns the daemon's version, limits, readiness and layouts.
    ///
    /// # Errors
    /// Any [`Error`] of the connection or the daemon; [`Error::Service`] with [`leafd_wire::Status::Version`] if client
    /// and daemon have no version in common.
    pub fn info(&self) -> Result<InfoReply> {
        self.info_by(&mut self.deadline())
    }

    pub(crate) fn info_by(&self, deadline: &mut Deadline) -> Result<InfoReply> {
        // The lowest and the highest version that this client supports.
        let [low, high] = leafd_wire::VERSION.to_le_bytes();
        let body = self.core.ask(opcode::INFO, 0, &[low, high, low, high], true, deadline)?;
        info_of(&body)
    }

    /// Returns the layout of the snowflake ids drawn under the tag name `name`.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if the daemon has no layout of this name; otherwise as [`Client::info`].
    pub fn layout(&self, name: &str) -> Result<Layout> {
        layout_of(&self.info()?, name)
    }

    /// Returns the daemon's state as JSON text.
    ///
    /// # Errors
    /// Any [`Error`] of the connection or the daemon.
    pub fn status_json(&self) -> Result<String> {
        text(self.core.ask(opcode::STATUS, 0, &[], true, &mut self.deadline())?)
    }

    /// Returns the daemon's metrics in Prometheus's text format. For administrators only.
    ///
    /// # Errors
    /// [`Error::Service`] if this user is not an administrator, or the daemon has no metrics; otherwise any [`Error`]
    /// of the connection.
    pub fn metrics_text(&self) -> Result<String> {
        text(self.core.ask(opcode::METRICS, 0, &[0], true, &mut self.deadline())?)
    }

    /// Makes an administrative request ([`leafd_wire::opcode`]; JSON in, JSON out) and never
    /// repeats it: after [`Error::Disconnected`] or [`Error::Timeout`] it may have taken effect.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] for a body that is too long for a frame; otherwise any [`Error`] of the connection or
    /// the daemon.
    pub fn admin(&self, opcode: u8, json: &str) -> Result<String> {
        // The length field also counts the rest of the header.
        let body_max = REQUEST_LENGTH_MAX as usize - (leafd_wire::HEADER_BYTES - 4);
        if json.len() > body_max {
            return Err(Error::invalid(format!(
                "the request has {} bytes; a frame holds at most {body_max}",
                json.len()
            )));
        }
        text(self.core.ask(opcode, 0, json.as_bytes(), false, &mut self.deadline())?)
    }

    /// The deadline of a call that begins now.
    pub(crate) fn deadline(&self) -> Deadline {
        self.core.deadline(self.limit)
    }

    /// Returns the path of the daemon's socket.
    pub fn socket_path(&self) -> &Path {
        self.core.path()
    }
}

impl Builder {
    /// Builds the client. It connects on first use; [`Client::connect`] connects immediately.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] for a path that no socket can have, [`Error::Resources`] if memory is exhausted.
    pub fn build(self) -> Result<Client> {
        let path = self.socket.clone().unwrap_or_else(default_socket_path);
        check_socket_path(&path)?;
        let core = Core::new(path, &self).map_err(|source| Error::Resources {
            what: "can't allocate memory for a client",
            source,
        })?;
        Ok(Client { core: Arc::new(core), limit: None })
    }
}

fn info_of(body: &[u8]) -> Result<InfoReply> {
    let mut info = InfoReply::decode(body).map_err(|error| Error::protocol(error.what))?;
    // These texts appear in messages.
    let texts = info.layouts.iter_mut().map(|(name, _)| name).chain([&mut info.release]);
    texts.for_each(|text| *text = clean(text));
    if info.version != leafd_wire::VERSION {
        return Err(Error::protocol(format!(
            "leafd {} chose protocol version {}, but this client offered only version {}",
            info.release,
            info.version,
            leafd_wire::VERSION
        )));
    }
    Ok(info)
}

pub(crate) fn layout_of(info: &InfoReply, name: &str) -> Result<Layout> {
    let found = info.layouts.iter().find(|(of, _)| of == name);
    found.map(|(_, layout)| *layout).ok_or_else(|| {
        let names: Vec<&str> = info.layouts.iter().map(|(of, _)| of.as_str()).collect();
        Error::invalid(format!(
            "leafd has no layout {name:?}; its layouts are {}",
            names.join(", ")
        ))
    })
}

fn text(body: Vec<u8>) -> Result<String> {
    String::from_utf8(body).map_err(|_| Error::protocol("an answer's text is not UTF-8"))
}
