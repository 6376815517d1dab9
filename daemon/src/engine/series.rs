//! Document numbers: which series there are, and the current period by the clock of the store that records them.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use jiff::tz::TimeZone;
use leafd_wire::{Run, Status};
use tokio::sync::Mutex;
use tracing::warn;

use super::upstream::Upstream;
use crate::clock;
use crate::reply::Failure;
use leafd_core::series::{Format, Overflow, Period, Sample, Series, is_name};
use leafd_core::{BootMs, Tag, UnixMs};

/// By name, each with its record; with a failure if this host can't use it.
type AllKnown = BTreeMap<String, (String, Result<Rc<KnownSeries>, Failure>)>;

/// The series of the first store.
pub struct SeriesBook {
    upstream: Rc<Upstream>,
    known: RefCell<AllKnown>,
    /// The last reading of the store's clock, made together with that of its series.
    sample: Cell<Option<Sample>>,
    asking: Mutex<()>,
    /// When numbers were last drawn.
    used: Cell<BootMs>,
}

/// A series in use.
pub struct KnownSeries {
    pub record: Series,
    pub format: Format,
    pub zone: TimeZone,
    /// Locked while a tag is created, and a new tenant admitted.
    pub creating: Arc<Mutex<()>>,
    /// For each tenant the period in use.
    in_use: RefCell<HashMap<String, Rc<Place>>>,
}

/// A period of a tenant.
pub struct Place {
    pub series: Rc<KnownSeries>,
    pub tenant: String,
    pub period: Period,
    pub tag: Tag,
    /// How long before its end to prepare the next period; `None` once that is done or has begun.
    pub prepare_ms: Cell<Option<u64>>,
    /// Whether a warning has said that numbers will soon be longer.
    warned: Cell<bool>,
}

/// How often the store's clock and its series are read while numbers are drawn. If the clock is set, this host notices
/// within this time.
const READ_EVERY_MS: u64 = 5_000;

/// Any client can cause another reading after this time.
pub const READ_AGAIN_MS: u64 = 1_000;

/// How long after the last draw they are read.
const IN_USE_MS: u64 = 60_000;

/// The next period is prepared this long before it begins, or up to half of that later. The hosts take random times.
const PREPARED_MS: u64 = 600_000;

impl SeriesBook {
    /// Nothing is known yet.
    pub fn new(upstream: Rc<Upstream>) -> SeriesBook {
        SeriesBook {
            upstream,
            known: RefCell::default(),
            sample: Cell::default(),
            asking: Mutex::default(),
            used: Cell::new(BootMs(0)),
        }
    }

    /// The current period of a series or tenant, if nothing has to be waited for to know it.
    pub fn at_once(&self, name: &str, now: BootMs) -> Option<Rc<Place>> {
        // This causes the store to be read for the next request.
        self.used.set(now);
        let (series, tenant) = names(name);
        let known = self.fresh(series, now)?.ok()?;
        known.place(tenant, self.present(&known, now).ok()?.0).ok()
    }

    /// As [`SeriesBook::at_once`], with the instant up to which it is the current one. Waits at a boundary until it has
    /// passed, but not beyond the deadline.
    ///
    /// # Errors
    /// The failure for the client.
    pub async fn settle(
        &self,
        name: &str,
        deadline: BootMs,
    ) -> Result<(Rc<Place>, BootMs), Failure> {
        let (series, tenant) = names(name);
        loop {
            let known = self.find(series).await?;
            let now = clock::boot();
            match self.present(&known, now) {
                Err(Failure { status: Status::Deadline, retry_after_ms: left, .. })
                    if now.0 + u64::from(left) <= deadline.0 =>
                {
                    tokio::time::sleep(Duration::from_millis(left.into())).await;
                }
                present => {
                    let (period, until) = present?;
                    return Ok((known.place(tenant, period)?, until));
                }
            }
        }
    }

    /// The current period, and the instant up to which it lasts.
    ///
    /// # Errors
    /// [`Status::Deadline`] at a boundary, which has passed when the failure says to retry; or another failure.
    pub fn present(&self, series: &KnownSeries, now: BootMs) -> Result<(Period, BootMs), Failure> {
        let name = &series.record.name;
        let Some(sample) = self.sample.get() else { return Err(self.unavailable()) };
        match sample.present(series.format.kind(), &series.zone, now) {
            Some(Ok(present)) => Ok(present),
            Some(Err(left)) => {
                let words = format!(
                    "a period of series {name:?} is ending, and the store's clock is known only to within {left} ms; \
                     retry after that time"
                );
                let retry_after_ms = u32::try_from(left).unwrap_or(u32::MAX);
                Err(Failure { retry_after_ms, ..Failure::new(Status::Deadline, words) })
            }
            None => Err(Failure::new(
                Status::StoreRefused,
                format!(
                    "the clock of {} shows a date that is out of range; correct the server's clock",
                    self.upstream.url
                ),
            )),
        }
    }

    /// A series by its name.
    ///
    /// # Errors
    /// There is no such series, this host can't use it, or the store can't be asked.
    pub async fn find(&self, name: &str) -> Result<Rc<KnownSeries>, Failure> {
        if let Some(known) = self.fresh(name, clock::boot()) {
            return known;
        }
        let asked = self.read(READ_AGAIN_MS).await;
        let known = self.known.borrow().get(name).map(|(_, known)| known.clone());
        known.unwrap_or_else(|| {
            asked?;
            let words =
                format!("there is no series {name:?}; create it with leafctl series create");
            Err(Failure::new(Status::TagUnknown, words))
        })
    }

    /// A series by its name, unless the store has to be asked about it.
    fn fresh(&self, name: &str, now: BootMs) -> Option<Result<Rc<KnownSeries>, Failure>> {
        let known = self.known.borrow().get(name)?.1.clone();
        let age_ms = now.0 - self.sample.get()?.sent.0;
        // During an outage, the known state is used.
        let fresh = age_ms < 2 * READ_EVERY_MS || self.upstream.unavailable_reason().is_some();
        fresh.then_some(known)
    }

    /// The series that are known, by name.
    pub fn all(&self) -> Vec<Rc<KnownSeries>> {
        self.known.borrow().values().filter_map(|(_, series)| series.clone().ok()).collect()
    }

    /// The periods in use whose next one is to be prepared now.
    pub fn due(&self, now: BootMs) -> Vec<Rc<Place>> {
        let mut all = Vec::new();
        for series in self.all() {
            if let Ok((period, until)) = self.present(&series, now) {
                let mut in_use = series.in_use.borrow_mut();
                in_use.retain(|_, place| place.period == period);
                let due = |ahead_ms: u64| until.0 <= now.0 + ahead_ms;
                let is_due = |place: &&Rc<Place>| place.prepare_ms.get().is_some_and(due);
                all.extend(in_use.values().filter(is_due).cloned());
            }
        }
        all
    }

    /// The earliest time that the store's clock can show.
    pub fn store_clock(&self) -> Option<UnixMs> {
        Some(UnixMs(self.sample.get()?.span(clock::boot()).0))
    }

    /// Reads the store's clock and its series, unless that was done within this time.
    ///
    /// # Errors
    /// The store can't be asked.
    pub async fn read(&self, within_ms: u64) -> Result<(), Failure> {
        let came = clock::boot();
        if self.sample.get().is_some_and(|sample| came.0 < sample.sent.0 + within_ms) {
            return Ok(());
        }
        // All callers wait for the same probe, so none of them waits for the failures of others.
        self.upstream.reachable().await.map_err(|error| Failure::from(&error))?;
        let _one = self.asking.lock().await;
        // Another request has asked since then. One that was under way may have read the clock before it was set.
        if self.sample.get().is_some_and(|sample| sample.sent > came) {
            return Ok(());
        }
        let Some(under) = self.upstream.present() else { return Err(self.unavailable()) };
        let found = self.upstream.store.call(move |store| store.series(&under)).await;
        let (entries, sample) = found.map_err(|error| {
            if matches!(error, leafd_core::store::StoreError::Unavailable { .. }) {
                self.upstream.call_failed(&error);
            }
            Failure::from(&error)
        })?;
        self.sample.set(Some(sample));
        let mut known = self.known.borrow_mut();
        known.retain(|name, _| entries.iter().any(|(entry, _)| **entry == **name));
        for (name, text) in entries {
            if known.get(&name).is_some_and(|(former, _)| *former == text) {
                continue;
            }
            let series = serde_json::from_str(&text)
                .map_err(|why| format!("its record can't be read: {why}"))
                .and_then(KnownSeries::new)
                .map_err(|why| {
                    let words = format!("this host can't issue numbers of series {name:?}: {why}");
                    warn!("{words}");
                    Failure::new(Status::StoreRefused, words)
                });
            known.insert(name, (text, series.map(Rc::new)));
        }
        Ok(())
    }

    fn unavailable(&self) -> Failure {
        let reason = self.upstream.unavailable_reason();
        let why = reason.map_or_else(|| "it has not answered yet".to_owned(), |it| it.message);
        Failure::store_away(format!(
            "the periods of series are decided by the clock of the store {}, which this daemon has not read since it \
             started: {why}",
            self.upstream.url
        ))
    }

    /// Follows the store's clock while numbers are drawn. A failure is reported to the clients that draw them.
    pub async fn follow(&self) {
        if clock::boot().0 < self.used.get().0 + IN_USE_MS {
            let _ = self.read(READ_EVERY_MS).await;
        }
    }
}

/// The series and the tenant, if there is one, in a name such as `orders/acme`.
fn names(name: &str) -> (&str, &str) {
    name.split_once('/').unwrap_or((name, ""))
}

impl KnownSeries {
    /// Checks a record.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn new(record: Series) -> Result<KnownSeries, String> {
        let Series { name, format, timezone, .. } = &record;
        if !is_name(name) {
            return Err(format!(
                "{name:?} can't name a series: a name is a lower-case letter and up to 39 further letters, digits, _ and -"
            ));
        }
        let format = Format::parse(format)
            .map_err(|why| format!("{format:?} is not a valid format: {why}"))?;
        let zone = TimeZone::get(timezone).map_err(|_| {
            format!(
                "the time zone {timezone:?} is unknown on this host: use an IANA name, such as Europe/Berlin; for a \
                 new zone, update tzdata and restart leafd"
            )
        })?;
        let (creating, in_use) = Default::default();
        Ok(KnownSeries { record, format, zone, creating, in_use })
    }

    /// A period of a tenant: the one in use, if it is in use.
    ///
    /// # Errors
    /// The series can't have this tenant.
    pub fn place(self: &Rc<Self>, tenant: &str, period: Period) -> Result<Rc<Place>, Failure> {
        let tenant = self.format.tenant(tenant).map_err(|why| {
            let words = format!("series {:?}: {why}", self.record.name);
            Failure::new(Status::ValueRefused, words)
        })?;
        if let Some(place) = self.in_use.borrow().get(&tenant).filter(|it| it.period == period) {
            return Ok(Rc::clone(place));
        }
        let tag = self.record.tag_of(&tenant, period);
        let prepare_ms = Cell::new(Some(PREPARED_MS - fastrand::u64(..PREPARED_MS / 2)));
        let (series, warned) = (Rc::clone(self), Cell::default());
        Ok(Rc::new(Place { series, tenant, period, tag, prepare_ms, warned }))
    }
}

impl Place {
    /// Returns the text of a number.
    pub fn writer(&self) -> impl Fn(u64) -> String {
        self.series.format.writer(self.period, &self.tenant)
    }

    /// The texts of issued numbers, one per line, as the body of a reply. From now on the period is in use.
    pub fn issue(self: &Rc<Self>, runs: &[Run]) -> Vec<u8> {
        let KnownSeries { record, format, in_use, .. } = &*self.series;
        let mut in_use = in_use.borrow_mut();
        if in_use.get(&self.tenant).is_none_or(|known| known.period != self.period) {
            in_use.insert(self.tenant.clone(), Rc::clone(self));
        }
        let capacity = format.capacity();
        let beyond = runs.iter().any(|run| run.end() > capacity - capacity / 5);
        // If they can't get longer, the tag has a ceiling, and its own warnings.
        if record.overflow == Overflow::Grow && beyond && !self.warned.replace(true) {
            warn!(
                tag = %self.tag,
                "80 % of this period's numbers that fit the format are used; after the rest, numbers get longer"
            );
        }
        let numbers = runs.iter().flat_map(|run| run.range().step_by(run.stride as usize));
        numbers.map(self.writer()).collect::<Vec<_>>().join("\n").into_bytes()
    }
}
