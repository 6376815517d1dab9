//! Document numbers: which series there are, and the current period by the clock of the store that records them.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;
use std::time::Duration;

use jiff::tz::TimeZone;
use leafd_wire::Status;
use tokio::sync::Mutex;
use tokio::time::Timeout;
use tracing::warn;

use super::upstream::Upstream;
use crate::clock;
use crate::reply::Failure;
use leafd_core::series::{Format, Period, Sample, Series, Standing, TENANTS_MAX, is_name};
use leafd_core::{BootMs, Tag};

/// By name, each with its record; without a value if this host can't use it.
type AllKnown = BTreeMap<String, (String, Option<Rc<KnownSeries>>)>;

/// The series of the first store.
pub struct SeriesBook {
    upstream: Rc<Upstream>,
    known: RefCell<AllKnown>,
    sample: Cell<Option<Sample>>,
    /// When the store's clock and series were last read.
    asked: Cell<Option<BootMs>>,
    asking: Mutex<()>,
    /// When numbers were last drawn.
    used: Cell<BootMs>,
}

/// A series in use.
pub struct KnownSeries {
    pub record: Series,
    pub format: Format,
    pub zone: TimeZone,
    /// Tenants that are refused without asking the store, and until when. Locked while a new tenant is admitted.
    pub refused_until: Mutex<HashMap<String, BootMs>>,
    /// For each tenant the period in use.
    in_use: RefCell<HashMap<String, Rc<Place>>>,
}

/// A period of a tenant.
pub struct Place {
    pub series: Rc<KnownSeries>,
    pub tenant: String,
    pub period: Period,
    pub tag: Tag,
    /// Up to this instant it is the present one.
    pub until: BootMs,
    /// When to prepare the next period; `None` once that is done or has begun.
    pub prepare_at: Cell<Option<BootMs>>,
}

/// How often the store's clock and its series are read while numbers are drawn. If the clock is set, this host notices
/// within this time.
const READ_EVERY_MS: u64 = 5_000;

/// For how long an unknown series is refused before the store is asked again.
const READ_AGAIN_MS: u64 = 1_000;

/// How long after the last draw they are read.
const IN_USE_MS: u64 = 60_000;

/// The next period is prepared this long before it begins, or up to half of that later. The hosts take random times.
const PREPARED_MS: u64 = 600_000;

const RETENTION_DAYS_MAX: u32 = 36_500;

/// How often a request that waits for a boundary looks again.
const BOUNDARY_TICK: Duration = Duration::from_millis(20);

impl SeriesBook {
    /// Nothing is known yet.
    pub fn new(upstream: Rc<Upstream>) -> SeriesBook {
        SeriesBook {
            upstream,
            known: RefCell::default(),
            sample: Cell::default(),
            asked: Cell::default(),
            asking: Mutex::default(),
            used: Cell::new(BootMs(0)),
        }
    }

    /// The present period of a tenant. Waits at a boundary until it has passed, but not beyond the deadline.
    ///
    /// # Errors
    /// The failure for the client.
    pub async fn settle(
        &self,
        series: &str,
        tenant: &str,
        deadline: BootMs,
    ) -> Result<Rc<Place>, Failure> {
        loop {
            // If a request doesn't wait, the store is read for the next one.
            self.used.set(clock::boot());
            let known = timeout_at(deadline, self.find(series)).await.unwrap_or_else(|_| {
                Err(Failure::store_away(format!(
                    "series {series:?} can't be looked up within the deadline: the store {} has not answered",
                    self.upstream.url
                )))
            })?;
            let tenant = known.format.tenant(tenant).map_err(|why| {
                Failure::new(Status::ValueRefused, format!("series {series:?}: {why}"))
            })?;
            let now = clock::boot();
            let left = match self.standing(&known, now) {
                Some(Standing::In(period, until)) => {
                    return Ok(known.place(tenant, period, until));
                }
                Some(Standing::Boundary(left)) => left,
                Some(Standing::Nonsense) => {
                    let words =
                        format!("the clock of {} is far from the present", self.upstream.url);
                    return Err(Failure::new(Status::StoreRefused, words));
                }
                None => return Err(self.unavailable(&format!("series {series:?}"))),
            };
            if now.0 + left > deadline.0 {
                let words = format!(
                    "a period of series {series:?} ends, and the store's clock is not known to better than {left} ms; \
                     retry after that"
                );
                let retry_after_ms = u32::try_from(left).unwrap_or(u32::MAX);
                return Err(Failure { retry_after_ms, ..Failure::new(Status::Deadline, words) });
            }
            tokio::time::sleep(BOUNDARY_TICK.min(Duration::from_millis(left))).await;
        }
    }

    /// A series by its name.
    ///
    /// # Errors
    /// There is no such series, or the store can't be asked.
    pub async fn find(&self, name: &str) -> Result<Rc<KnownSeries>, Failure> {
        let get = || self.known.borrow().get(name)?.1.clone();
        let now = clock::boot().0;
        // In an outage, what is known counts.
        let fresh = self.asked.get().is_some_and(|asked| now < asked.0 + 2 * READ_EVERY_MS)
            || self.upstream.unavailable_reason().is_some();
        if let Some(known) = get().filter(|_| fresh) {
            return Ok(known);
        }
        let failure = self.read_again().await.err();
        match (get(), failure) {
            (Some(known), _) => Ok(known),
            (None, Some(failure)) => Err(failure),
            (None, None) if self.known.borrow().contains_key(name) => Err(Failure::new(
                Status::StoreRefused,
                format!(
                    "this host can't issue numbers of series {name:?}: its log says why, after \"can't issue numbers\""
                ),
            )),
            (None, None) => Err(Failure::new(
                Status::TagUnknown,
                format!("there is no series {name:?}; create it with leafctl series create"),
            )),
        }
    }

    /// The series that are known, by name.
    pub fn all(&self) -> Vec<Rc<KnownSeries>> {
        self.known.borrow().values().filter_map(|(_, series)| series.clone()).collect()
    }

    /// The current period; `None` if the store's clock was never read.
    fn standing(&self, series: &KnownSeries, now: BootMs) -> Option<Standing> {
        Some(self.sample.get()?.standing(series.format.kind(), &series.zone, now))
    }

    /// The present period, if it is known.
    pub fn present(&self, series: &KnownSeries) -> Option<Period> {
        match self.standing(series, clock::boot())? {
            Standing::In(period, _) => Some(period),
            _ => None,
        }
    }

    /// Whether it is a place's period now.
    pub fn is_now(&self, place: &Place) -> bool {
        self.present(&place.series) == Some(place.period)
    }

    /// How exactly the store's clock is known, in milliseconds, and the earliest time that it can show.
    pub fn store_clock(&self) -> Option<(u64, u64)> {
        let (from, to) = self.sample.get()?.span(clock::boot());
        Some((to - from, from))
    }

    /// As [`SeriesBook::read`], but at most once a second, because any client can cause it.
    ///
    /// # Errors
    /// The store can't be asked.
    pub async fn read_again(&self) -> Result<(), Failure> {
        let now = clock::boot().0;
        match self.asked.get() {
            Some(asked) if now < asked.0 + READ_AGAIN_MS => Ok(()),
            _ => self.read().await,
        }
    }

    /// Reads the store's clock and its series.
    ///
    /// # Errors
    /// The store can't be asked.
    pub async fn read(&self) -> Result<(), Failure> {
        let came = clock::boot();
        // All who ask wait for the same probe, so nobody waits for the failures of others.
        self.upstream.reachable().await.map_err(|error| Failure::from(&error))?;
        let _one = self.asking.lock().await;
        // Another request has asked since then. One that was under way may have read the clock before it was set.
        if self.asked.get().is_some_and(|asked| asked > came) {
            return Ok(());
        }
        let Some(under) = self.upstream.present() else {
            return Err(self.unavailable("every series"));
        };
        let found = self.upstream.store.call(move |store| store.series(&under)).await;
        let (entries, sample) = found.map_err(|error| {
            if matches!(error, leafd_core::store::StoreError::Unavailable { .. }) {
                self.upstream.call_failed(&error);
            }
            Failure::from(&error)
        })?;
        self.asked.set(Some(sample.sent));
        self.sample.set(Some(sample.or(self.sample.get())));
        let mut known = self.known.borrow_mut();
        known.retain(|name, _| entries.iter().any(|(entry, _)| **entry == **name));
        for (name, text) in entries {
            if known.get(&name).is_some_and(|(former, _)| *former == text) {
                continue;
            }
            let series = serde_json::from_str::<Series>(&text)
                .map_err(|why| {
                    Failure::new(Status::Internal, format!("its record makes no sense: {why}"))
                })
                .and_then(|record| KnownSeries::new(Series { name: name.clone(), ..record }))
                .inspect_err(|failure| {
                    let why = &failure.message;
                    warn!(series = name, "this host can't issue numbers of the series: {why}");
                });
            known.insert(name, (text, series.ok().map(Rc::new)));
        }
        Ok(())
    }

    fn unavailable(&self, whose: &str) -> Failure {
        let reason = self.upstream.unavailable_reason();
        let why = reason.map_or_else(|| "it has not answered yet".to_owned(), |it| it.message);
        Failure::store_away(format!(
            "the period of {whose} is decided by the clock of the store {}, which this daemon has not read \
             since it started: {why}",
            self.upstream.url
        ))
    }

    /// Whether it is time to read the store's clock again.
    pub fn wants_reading(&self) -> bool {
        let now = clock::boot().0;
        now < self.used.get().0 + IN_USE_MS
            && self.asked.get().is_none_or(|asked| now >= asked.0 + READ_EVERY_MS)
    }
}

impl KnownSeries {
    /// Checks a record.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn new(record: Series) -> Result<KnownSeries, Failure> {
        let refused = |message| Failure::new(Status::ValueRefused, message);
        let Series { name, format, timezone, tenants_max, retention_days, .. } = &record;
        if !is_name(name) {
            return Err(refused(format!(
                "{name:?} can't name a series: a name is a lower-case letter and up to 39 further letters, digits, _ and -"
            )));
        }
        let format = Format::parse(format)
            .map_err(|why| refused(format!("{format:?} is not a format: {why}")))?;
        let zone = TimeZone::get(timezone).map_err(|_| {
            refused(format!(
                "this host knows no time zone {timezone:?}: use an IANA name, such as Europe/Berlin; for a new zone, \
                 update tzdata and restart leafd"
            ))
        })?;
        for (setting, value, most) in [
            ("tenants_max", *tenants_max, TENANTS_MAX),
            ("retention_days", retention_days.unwrap_or(1), RETENTION_DAYS_MAX),
        ] {
            if !(1..=most).contains(&value) {
                return Err(refused(format!("{setting} is {value}; it must be from 1 to {most}")));
            }
        }
        let (refused_until, in_use) = Default::default();
        Ok(KnownSeries { record, format, zone, refused_until, in_use })
    }

    /// A period of a tenant.
    pub fn place(self: &Rc<Self>, tenant: String, period: Period, until: BootMs) -> Rc<Place> {
        let tag = self.record.tag_of(&tenant, period);
        let prepare_at = Cell::default();
        Rc::new(Place { series: Rc::clone(self), tenant, period, tag, until, prepare_at })
    }

    /// Remembers the period in use of a tenant, because a number of it was drawn.
    pub fn keep(&self, place: Rc<Place>) {
        let mut in_use = self.in_use.borrow_mut();
        if in_use.get(&place.tenant).is_some_and(|known| known.period == place.period) {
            return;
        }
        let ahead = PREPARED_MS - fastrand::u64(..PREPARED_MS / 2);
        place.prepare_at.set(Some(BootMs(place.until.0.saturating_sub(ahead))));
        in_use.insert(place.tenant.clone(), place);
    }

    /// The periods in use whose next one is to be prepared now.
    pub fn due(&self, now: BootMs) -> Vec<Rc<Place>> {
        let mut in_use = self.in_use.borrow_mut();
        in_use.retain(|_, place| now < place.until);
        let due = |place: &&Rc<Place>| place.prepare_at.get().is_some_and(|at| at <= now);
        in_use.values().filter(due).cloned().collect()
    }
}

impl Place {
    /// The text of a number.
    pub fn text(&self, number: u64) -> String {
        self.series.format.writer(self.period, &self.tenant)(number)
    }
}

/// Waits for something, but only up to an instant.
pub fn timeout_at<F: Future>(until: BootMs, work: F) -> Timeout<F> {
    tokio::time::timeout(Duration::from_millis(until.0.saturating_sub(clock::boot().0)), work)
}
