//! The daemon's answers. STATUS and the administrative requests are answered with JSON.

use crate::bytes::{Fields, short_length};
use crate::{HEADER_BYTES, Header, Layout, Malformed, Run, Sink, Status, opcode};

/// The answer to IDS.
///
/// Body: `u32` hold time in ms, `u16` number of runs, `u16` zero, then for each run `u64` first,
/// `u32` count, `u32` stride.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdsReply<'a> {
    /// How long a process may hold ids of this tag before it uses them, in milliseconds. 0: it must
    /// not hold them at all. This matters for held runs only.
    pub hold_ms: u32,
    runs: &'a [u8],
}

/// The answer to INFO.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InfoReply {
    /// The version that both sides support.
    pub version: u16,
    /// Whether ids of segment tags are available now.
    pub segments_ready: bool,
    /// Whether snowflake ids are available now.
    pub snowflake_ready: bool,
    /// Largest length field of a request.
    pub request_length_max: u32,
    /// The maximum number of ids in one request.
    pub count_max: u32,
    /// The maximum number of requests that may await an answer on one connection.
    pub pipeline_max: u32,
    /// The longest deadline that the daemon honours, in milliseconds.
    pub deadline_ms_max: u32,
    /// The daemon's process id (in the daemon's own process namespace).
    pub pid: u32,
    /// The daemon's release, such as `0.1.0`.
    pub release: String,
    /// The snowflake layouts, by the tag name under which their ids are drawn.
    pub layouts: Vec<(String, Layout)>,
}

/// The answer to a request that failed, with any status except [`Status::Ok`].
///
/// Body: `u32` ms after which a retry may succeed (0: unknown), then text to the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ErrorReply<'a> {
    /// The number of milliseconds after which a retry may succeed; 0: unknown.
    pub retry_after_ms: u32,
    /// What failed, why, and what to do, for people.
    pub message: &'a str,
}

const RUN_BYTES: usize = 16;

/// The part of the body before the runs.
const BEFORE_RUNS_BYTES: usize = 8;
const SEGMENTS_READY: u16 = 1;
const SNOWFLAKE_READY: u16 = 2;

/// The header of a reply to `request`.
pub fn reply_header(request: &Header, status: Status, flags: u8) -> Header {
    Header {
        opcode: request.opcode | opcode::REPLY,
        flags,
        status: status as u16,
        request_id: request.request_id,
    }
}

// === impl IdsReply ===

impl<'a> IdsReply<'a> {
    /// Parses the body.
    ///
    /// # Errors
    /// A malformed body, an empty run, or ids that are not positive signed 64-bit numbers.
    pub fn decode(body: &'a [u8]) -> Result<Self, Malformed> {
        let mut fields = Fields::new(body);
        let hold_ms = fields.u32()?;
        let run_count = usize::from(fields.u16()?);
        fields.u16()?;
        let runs = fields.rest();
        if runs.len() != run_count * RUN_BYTES {
            return Err(Malformed {
                what: "the number of runs differs from what the body contains",
            });
        }
        let reply = IdsReply { hold_ms, runs };
        for run in reply.runs() {
            if run.first == 0 || run.stride == 0 || run.last().is_none() {
                return Err(Malformed {
                    what: "a run is empty or exceeds the signed 64-bit numbers",
                });
            }
        }
        Ok(reply)
    }

    /// The runs, in the order of issue.
    pub fn runs(&self) -> impl Iterator<Item = Run> + use<'a> {
        let (runs, _) = self.runs.as_chunks::<RUN_BYTES>();
        runs.iter().map(|run| {
            let (first, rest) = run.split_first_chunk().expect("a run has 16 bytes");
            let (count, rest) = rest.split_first_chunk().expect("a run has 16 bytes");
            let (stride, _) = rest.split_first_chunk().expect("a run has 16 bytes");
            Run {
                first: u64::from_le_bytes(*first),
                count: u32::from_le_bytes(*count),
                stride: u32::from_le_bytes(*stride),
            }
        })
    }

    /// Writes the reply's frame for drawn ids.
    pub fn put(header: &Header, hold_ms: u32, runs: &[Run], sink: &mut impl Sink) {
        Self::put_head(header, hold_ms, runs.len(), sink);
        runs.iter().for_each(|run| Self::put_run(run, sink));
    }

    /// Writes the start of the frame for a reply with this many runs, if the reply is generated in pieces. Write each
    /// run with [`IdsReply::put_run`].
    pub fn put_head(header: &Header, hold_ms: u32, runs: usize, sink: &mut impl Sink) {
        let mut head = [0; HEADER_BYTES + BEFORE_RUNS_BYTES];
        head[..HEADER_BYTES].copy_from_slice(&header.encode(BEFORE_RUNS_BYTES + runs * RUN_BYTES));
        head[HEADER_BYTES..][..4].copy_from_slice(&hold_ms.to_le_bytes());
        head[HEADER_BYTES + 4..][..2].copy_from_slice(&short_length(runs));
        sink.put(&head);
    }

    /// Writes one run, after [`IdsReply::put_head`].
    pub fn put_run(run: &Run, sink: &mut impl Sink) {
        let mut bytes = [0; RUN_BYTES];
        bytes[..8].copy_from_slice(&run.first.to_le_bytes());
        bytes[8..12].copy_from_slice(&run.count.to_le_bytes());
        bytes[12..].copy_from_slice(&run.stride.to_le_bytes());
        sink.put(&bytes);
    }
}

// === impl InfoReply ===

impl InfoReply {
    /// Parses the body. Bytes after the last known field are ignored, so that a later daemon
    /// can add fields.
    ///
    /// # Errors
    /// A body that ends too early, or a layout that is not valid.
    pub fn decode(body: &[u8]) -> Result<Self, Malformed> {
        let mut fields = Fields::new(body);
        let version = fields.u16()?;
        let ready = fields.u16()?;
        let mut reply = InfoReply {
            version,
            segments_ready: ready & SEGMENTS_READY != 0,
            snowflake_ready: ready & SNOWFLAKE_READY != 0,
            request_length_max: fields.u32()?,
            count_max: fields.u32()?,
            pipeline_max: fields.u32()?,
            deadline_ms_max: fields.u32()?,
            pid: fields.u32()?,
            release: fields.short_text()?.to_owned(),
            layouts: Vec::new(),
        };
        for _ in 0..fields.u16()? {
            let name = fields.short_text()?.to_owned();
            let layout = Layout {
                time_bits: fields.u8()?,
                worker_bits: fields.u8()?,
                sequence_bits: fields.u8()?,
                unit_ms: {
                    fields.u8()?;
                    fields.u32()?
                },
                epoch_ms: fields.u64()?,
            };
            layout.check().map_err(|_| Malformed { what: "a layout that is not valid" })?;
            reply.layouts.push((name, layout));
        }
        Ok(reply)
    }

    /// Writes the reply's frame.
    pub fn put(&self, header: &Header, sink: &mut impl Sink) {
        let mut body = Vec::with_capacity(128);
        let ready = if self.segments_ready { SEGMENTS_READY } else { 0 }
            | if self.snowflake_ready { SNOWFLAKE_READY } else { 0 };
        body.put(&self.version.to_le_bytes());
        body.put(&ready.to_le_bytes());
        for field in [
            self.request_length_max,
            self.count_max,
            self.pipeline_max,
            self.deadline_ms_max,
            self.pid,
        ] {
            body.put(&field.to_le_bytes());
        }
        body.put(&short_length(self.release.len()));
        body.put(self.release.as_bytes());
        body.put(&short_length(self.layouts.len()));
        for (name, layout) in &self.layouts {
            body.put(&short_length(name.len()));
            body.put(name.as_bytes());
            body.put(&[layout.time_bits, layout.worker_bits, layout.sequence_bits, 0]);
            body.put(&layout.unit_ms.to_le_bytes());
            body.put(&layout.epoch_ms.to_le_bytes());
        }
        header.put_frame(&body, sink);
    }
}

// === impl ErrorReply ===

impl<'a> ErrorReply<'a> {
    /// Parses the body. Text is truncated where it stops being valid UTF-8.
    ///
    /// # Errors
    /// A body shorter than its first field.
    pub fn decode(body: &'a [u8]) -> Result<Self, Malformed> {
        let mut fields = Fields::new(body);
        let retry_after_ms = fields.u32()?;
        let text = fields.rest();
        let message = match std::str::from_utf8(text) {
            Ok(message) => message,
            Err(error) => std::str::from_utf8(&text[..error.valid_up_to()]).unwrap_or(""),
        };
        Ok(ErrorReply { retry_after_ms, message })
    }

    /// Writes the reply's frame.
    pub fn put(&self, header: &Header, sink: &mut impl Sink) {
        sink.put(&header.encode(4 + self.message.len()));
        sink.put(&self.retry_after_ms.to_le_bytes());
        sink.put(self.message.as_bytes());
    }
}
