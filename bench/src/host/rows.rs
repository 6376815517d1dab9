//! The rows of the table: a system and a way to ask it.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result};
use leafd_client::Client;

use super::redis::{RedisServer, RedisTransport};
use super::transport::LeafdTransport;
use super::workloads::{self, Round, Setting};
use super::{echo, held, paced};
use crate::processes::CpuClock;

/// The system that answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum System {
    /// A process that only echoes.
    Echo,
    Redis,
    Segment,
    Snowflake,
}

/// The way to ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Workload {
    Blocking,
    Polling,
    BackToBack,
    Steady,
    Pipelined,
    EightConnections,
    Connections64,
    Connections512,
    EightThreads,
    SixteenPaced,
    EightPipelined,
    Batch100,
    Batch1000,
    Held,
    HeldByTwo,
    HeldSteady,
    HeldTail,
    HeldProcesses,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Row {
    pub(super) system: System,
    pub(super) workload: Workload,
}

/// A leafd to measure.
#[derive(Debug)]
pub(super) struct Leafd {
    pub(super) socket: PathBuf,
    pub(super) cpu: CpuClock,
    /// The segment tag of every row; `None`: each row has its own (see [`Row::own_tag`]).
    pub(super) tag: Option<String>,
    /// Whether the daemon has a worker number.
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
const CONNECTIONS_MORE: usize = 64;
const CONNECTIONS_MOST: usize = 512;
const CONNECTION_PIPELINED_BY: usize = 16;
const PROCESSES: usize = 4;
const PROCESSES_PACED: usize = 16;

/// A row of one id per millisecond runs this many times longer than the others, to see enough ids.
const STEADY_TIMES: u32 = 4;

/// The layout whose cap is known.
const SNOWFLAKE: &str = "snowflake";

/// Every row, in the order of a round: rows that are compared are measured one after the other.
pub(super) fn all() -> Vec<Row> {
    use System::*;
    use Workload::*;
    let rows = |workload: Workload, systems: &[System]| {
        systems.iter().map(|&system| Row { system, workload }).collect::<Vec<_>>()
    };
    let compared = [Redis, Segment, Snowflake];
    let own = [Segment, Snowflake];
    [
        rows(Blocking, &[Echo]),
        rows(Polling, &[Echo]),
        rows(BackToBack, &compared),
        rows(Steady, &compared),
        // Compared with Redis as it is asked directly.
        rows(HeldSteady, &own),
        rows(Pipelined, &compared),
        rows(EightConnections, &compared),
        // Compared with as many connections.
        rows(EightThreads, &own),
        rows(Connections64, &compared),
        rows(Connections512, &compared),
        rows(SixteenPaced, &compared),
        rows(EightPipelined, &compared),
        rows(Batch100, &own),
        rows(Batch1000, &own),
        rows(Held, &own),
        rows(HeldByTwo, &own),
        rows(HeldTail, &own),
        rows(HeldProcesses, &[Snowflake]),
    ]
    .concat()
}

// === impl Row ===

impl Row {
    /// Its name on the command line and in the table.
    pub(super) fn name(self) -> String {
        format!("{}: {}", self.system.name(), self.workload.name())
    }

    /// A segment row's own tag on the bench's daemon. It has six bytes, so that frames are as large as
    /// the floors' messages. No two rows share a tag, so that none changes another one's rate.
    pub(super) fn own_tag(self) -> String {
        format!("row-{:02}", self.workload as u32)
    }

    pub(super) fn time(self, base: Duration) -> Duration {
        match self.workload {
            Workload::Steady | Workload::HeldSteady | Workload::SixteenPaced => base * STEADY_TIMES,
            _ => base,
        }
    }

    /// The name under which this row's ids must be unique.
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

    /// As many connections as the form has.
    fn each_connection<T>(self, transport: impl Fn() -> Result<T>) -> Result<Vec<T>> {
        let count = match self.workload {
            Workload::Connections64 => CONNECTIONS_MORE,
            Workload::Connections512 => CONNECTIONS_MOST,
            _ => CONNECTIONS,
        };
        (0..count).map(|_| transport()).collect()
    }

    pub(super) fn measure(self, servers: &Servers, base: Duration) -> Result<Round> {
        let time = self.time(base);
        let round = match self.system {
            System::Echo => echo::measure(self.workload == Workload::Polling, time)
                .map(|stats| (stats, Vec::new())),
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
        let transport = || RedisTransport::connect(&redis.socket, &self.own_tag());
        match self.workload {
            Workload::BackToBack => workloads::back_to_back(transport()?, setting, false),
            Workload::Steady => workloads::steady(transport()?, setting, false),
            Workload::Pipelined => {
                workloads::connections(vec![transport()?], PIPELINED_BY, setting)
            }
            Workload::EightConnections | Workload::Connections64 | Workload::Connections512 => {
                workloads::connections(self.each_connection(transport)?, 1, setting)
            }
            Workload::SixteenPaced => {
                let (server, key) = (paced::Server::Redis, self.own_tag());
                paced::processes(server, &redis.socket, &key, PROCESSES_PACED, setting)
            }
            Workload::EightPipelined => {
                let transports = self.each_connection(transport)?;
                workloads::connections(transports, CONNECTION_PIPELINED_BY, setting)
            }
            workload => anyhow::bail!("Redis is not asked in the form {workload:?}"),
        }
    }

    fn measure_leafd(self, leafd: &Leafd, tag: &str, time: Duration) -> Result<Round> {
        let setting = Setting { time, server: Some(leafd.cpu) };
        let client = || -> Result<Client> { Ok(Client::connect(&leafd.socket)?) };
        let transport = || LeafdTransport::direct(client()?, tag);
        match self.workload {
            Workload::BackToBack => workloads::back_to_back(transport()?, setting, false),
            Workload::Steady => workloads::steady(transport()?, setting, false),
            Workload::Pipelined => {
                workloads::connections(vec![transport()?], PIPELINED_BY, setting)
            }
            Workload::EightConnections | Workload::Connections64 | Workload::Connections512 => {
                workloads::connections(self.each_connection(transport)?, 1, setting)
            }
            Workload::EightThreads => {
                let client = client()?;
                let transport = || LeafdTransport::direct(client.clone(), tag);
                workloads::connections(self.each_connection(transport)?, 1, setting)
            }
            Workload::SixteenPaced => {
                let server = paced::Server::Leafd;
                paced::processes(server, &leafd.socket, tag, PROCESSES_PACED, setting)
            }
            Workload::EightPipelined => {
                let transports = self.each_connection(transport)?;
                workloads::connections(transports, CONNECTION_PIPELINED_BY, setting)
            }
            Workload::Batch100 => workloads::batches(&client()?.tag(tag)?, 100, setting),
            Workload::Batch1000 => workloads::batches(&client()?.tag(tag)?, 1_000, setting),
            Workload::Held => held::unpaced(&client()?.tag(tag)?, 1, setting),
            Workload::HeldByTwo => held::unpaced(&client()?.tag(tag)?, 2, setting),
            Workload::HeldSteady => {
                workloads::steady(LeafdTransport::held(client()?, tag)?, setting, true)
            }
            Workload::HeldTail => held::tail(&client()?.tag(tag)?, setting),
            Workload::HeldProcesses => held::processes(&leafd.socket, tag, PROCESSES, setting),
            Workload::Blocking | Workload::Polling => anyhow::bail!("leafd is no echo"),
        }
    }
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

impl Workload {
    pub(super) fn name(self) -> &'static str {
        match self {
            Workload::Blocking => "blocking, back to back",
            Workload::Polling => "polling, back to back",
            Workload::BackToBack => "direct, back to back",
            Workload::Steady => "direct, 1,000/s",
            Workload::Pipelined => "direct, pipelined by 100",
            Workload::EightConnections => "direct, 8 connections",
            Workload::Connections64 => "direct, 64 connections",
            Workload::Connections512 => "direct, 512 connections",
            Workload::EightThreads => "direct, 8 threads of one client",
            Workload::SixteenPaced => "direct, 16 processes at 500/s",
            Workload::EightPipelined => "direct, 8 connections by 16",
            Workload::Batch100 => "batches of 100",
            Workload::Batch1000 => "batches of 1,000",
            Workload::Held => "held, 1 thread",
            Workload::HeldByTwo => "held, 2 threads",
            Workload::HeldSteady => "held, 1,000/s",
            Workload::HeldTail => "held, 1,000,000/s",
            Workload::HeldProcesses => "held, 4 processes",
        }
    }
}
