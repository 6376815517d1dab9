//! The rows of the table: who answers, and in which form it is asked.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result};
use leafd_client::Client;

use super::line::LeafdLine;
use super::processes::CpuClock;
use super::redis::{RedisLine, RedisServer};
use super::shapes::{self, Round, Setting};
use super::{echo, leased};

/// Who answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum System {
    /// A process that does nothing else.
    Echo,
    Redis,
    Segment,
    Snowflake,
}

/// In which form it is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Shape {
    Blocking,
    Polling,
    BackToBack,
    Steady,
    Pipelined,
    EightConnections,
    EightPipelined,
    Batch100,
    Batch1000,
    Leased,
    LeasedByTwo,
    LeasedSteady,
    LeasedTail,
    LeasedProcesses,
}

/// One row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Row {
    pub(super) system: System,
    pub(super) shape: Shape,
}

/// A leafd to measure.
#[derive(Debug)]
pub(super) struct Leafd {
    pub(super) socket: PathBuf,
    pub(super) cpu: CpuClock,
    /// The segment tag of every row; without one, each row has its own (see [`Row::own_tag`]).
    pub(super) tag: Option<String>,
    /// Whether it has a worker number.
    pub(super) snowflake: bool,
}

/// The servers of a run.
#[derive(Debug)]
pub(super) struct Servers {
    pub(super) leafd: Leafd,
    pub(super) redis: Option<RedisServer>,
}

const PIPELINED_BY: usize = 100;
const CONNECTIONS: usize = 8;
const CONNECTION_PIPELINED_BY: usize = 16;
const PROCESSES: usize = 4;

/// A row of one id a millisecond takes so many times longer than others, to see enough of them.
const STEADY_TIMES: u32 = 4;

/// The layout whose cap is known.
const SNOWFLAKE: &str = "snowflake";

/// Every row, in the order of the table.
pub(super) fn all() -> Vec<Row> {
    use Shape::*;
    use System::*;
    let rows = |shape: Shape, systems: &[System]| {
        systems.iter().map(|&system| Row { system, shape }).collect::<Vec<_>>()
    };
    let compared = [Redis, Segment, Snowflake];
    let own = [Segment, Snowflake];
    [
        rows(Blocking, &[Echo]),
        rows(Polling, &[Echo]),
        rows(BackToBack, &compared),
        rows(Steady, &compared),
        rows(Pipelined, &compared),
        rows(EightConnections, &compared),
        rows(EightPipelined, &compared),
        rows(Batch100, &own),
        rows(Batch1000, &own),
        rows(Leased, &own),
        rows(LeasedByTwo, &own),
        rows(LeasedSteady, &own),
        rows(LeasedTail, &own),
        rows(LeasedProcesses, &[Snowflake]),
    ]
    .concat()
}

// === impl Row ===

impl Row {
    /// What `--only` looks at and the table shows.
    pub(super) fn name(self) -> String {
        format!("{}: {}", self.system.name(), self.shape.name())
    }

    /// The tag of a segment row on a daemon of the bench's own: six bytes, so that frames have the size
    /// of the floors' messages, and no other row's, so that none changes another's rate.
    pub(super) fn own_tag(self) -> String {
        format!("row-{:02}", self.shape as u32)
    }

    pub(super) fn time(self, base: Duration) -> Duration {
        match self.shape {
            Shape::Steady | Shape::LeasedSteady => base * STEADY_TIMES,
            _ => base,
        }
    }

    /// The name under which this row's ids must differ from all others.
    pub(super) fn ids_of(self, leafd: &Leafd) -> String {
        match self.system {
            System::Echo | System::Redis => self.name(),
            System::Segment => self.segment_tag(leafd),
            System::Snowflake => SNOWFLAKE.to_owned(),
        }
    }

    fn segment_tag(self, leafd: &Leafd) -> String {
        leafd.tag.clone().unwrap_or_else(|| self.own_tag())
    }

    /// Measures one round.
    pub(super) fn measure(self, servers: &Servers, base: Duration) -> Result<Round> {
        let time = self.time(base);
        let round = match self.system {
            System::Echo => echo::measure(self.shape == Shape::Polling, time)
                .map(|figures| (figures, Vec::new())),
            System::Redis => self.measure_redis(servers, time),
            System::Segment => {
                self.measure_leafd(&servers.leafd, &self.segment_tag(&servers.leafd), time)
            }
            System::Snowflake => self.measure_leafd(&servers.leafd, SNOWFLAKE, time),
        };
        round.with_context(|| format!("cannot measure {:?}", self.name()))
    }

    fn measure_redis(self, servers: &Servers, time: Duration) -> Result<Round> {
        let redis = servers.redis.as_ref().context("there is no Redis")?;
        let setting = Setting { time, server: Some(redis.process.cpu_clock()) };
        let line = || RedisLine::connect(&redis.socket, &self.own_tag());
        match self.shape {
            Shape::BackToBack => shapes::back_to_back(line()?, setting, false),
            Shape::Steady => shapes::steady(line()?, setting, false),
            Shape::Pipelined => shapes::connections(vec![line()?], PIPELINED_BY, setting),
            Shape::EightConnections => shapes::connections(eight(line)?, 1, setting),
            Shape::EightPipelined => {
                shapes::connections(eight(line)?, CONNECTION_PIPELINED_BY, setting)
            }
            shape => anyhow::bail!("Redis is not asked in the form {shape:?}"),
        }
    }

    fn measure_leafd(self, leafd: &Leafd, tag: &str, time: Duration) -> Result<Round> {
        let setting = Setting { time, server: Some(leafd.cpu) };
        let client = || -> Result<Client> { Ok(Client::connect(&leafd.socket)?) };
        let line = || LeafdLine::unleased(client()?, tag);
        match self.shape {
            Shape::BackToBack => shapes::back_to_back(line()?, setting, false),
            Shape::Steady => shapes::steady(line()?, setting, false),
            Shape::Pipelined => shapes::connections(vec![line()?], PIPELINED_BY, setting),
            Shape::EightConnections => shapes::connections(eight(line)?, 1, setting),
            Shape::EightPipelined => {
                shapes::connections(eight(line)?, CONNECTION_PIPELINED_BY, setting)
            }
            Shape::Batch100 => shapes::batches(&client()?.tag(tag)?, 100, setting),
            Shape::Batch1000 => shapes::batches(&client()?.tag(tag)?, 1_000, setting),
            Shape::Leased => leased::unpaced(&client()?.tag(tag)?, 1, setting),
            Shape::LeasedByTwo => leased::unpaced(&client()?.tag(tag)?, 2, setting),
            Shape::LeasedSteady => {
                shapes::steady(LeafdLine::leased(client()?, tag)?, setting, true)
            }
            Shape::LeasedTail => leased::tail(&client()?.tag(tag)?, setting),
            Shape::LeasedProcesses => leased::processes(&leafd.socket, tag, PROCESSES, setting),
            Shape::Blocking | Shape::Polling => anyhow::bail!("leafd is no echo"),
        }
    }
}

fn eight<L>(line: impl Fn() -> Result<L>) -> Result<Vec<L>> {
    (0..CONNECTIONS).map(|_| line()).collect()
}

impl System {
    pub(super) fn name(self) -> &'static str {
        match self {
            System::Echo => "echo",
            System::Redis => "redis",
            System::Segment => "segment",
            System::Snowflake => "snowflake",
        }
    }
}

impl Shape {
    pub(super) fn name(self) -> &'static str {
        match self {
            Shape::Blocking => "blocking, back to back",
            Shape::Polling => "polling, back to back",
            Shape::BackToBack => "unleased, back to back",
            Shape::Steady => "unleased, 1,000/s",
            Shape::Pipelined => "unleased, pipelined by 100",
            Shape::EightConnections => "unleased, 8 connections",
            Shape::EightPipelined => "unleased, 8 connections by 16",
            Shape::Batch100 => "batches of 100",
            Shape::Batch1000 => "batches of 1,000",
            Shape::Leased => "leased, 1 thread",
            Shape::LeasedByTwo => "leased, 2 threads",
            Shape::LeasedSteady => "leased, 1,000/s",
            Shape::LeasedTail => "leased, 1,000,000/s",
            Shape::LeasedProcesses => "leased, 4 processes",
        }
    }
}
