//! Document numbers: which series there are, and the current period by the clock of the store that records them.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::time::Duration;

use anyhow::Context as _;
use jiff::tz::TimeZone;
use leafd_wire::Status;
use tokio::sync::Mutex;
use tracing::warn;

use super::upstream::Upstream;
use crate::clock;
use crate::reply::Failure;
use leafd_core::series::{Period, Sample, Series, Standing, Template};
use leafd_core::{BootMs, Tag};

/// The series of the first store.
pub struct SeriesBook {
    upstream: Rc<Upstream>,
    known: RefCell<HashMap<Box<str>, Rc<KnownSeries>>>,
    sample: Cell<Option<Sample>>,
    /// When the store's clock and series were last read.
    asked: Cell<Option<BootMs>>,
    asking: Mutex<()>,
    /// When numbers were last drawn.
    used: Cell<BootMs>,
}

/// A series in use.
pub struct KnownSeries {
    pub name: Box<str>,
    pub record: Series,
    pub zone: TimeZone,
    /// For each tenant the period in use.
    places: RefCell<HashMap<Box<str>, Rc<Place>>>,
}

/// The present period of a tenant.
pub struct Place {
    pub series: Rc<KnownSeries>,
    pub tenant: Box<str>,
    pub period: Period,
    pub tag: Tag,
    pub template: Template,
    /// Numbers may be issued before this instant.
    until: Cell<BootMs>,
    warned: Cell<bool>,
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

    /// The present period of a tenant, if it is known at once.
    pub fn place(&self, series: &[u8], tenant: &[u8], now: BootMs) -> Option<Rc<Place>> {
        let name = std::str::from_utf8(series).ok()?;
        let tenant = std::str::from_utf8(tenant).ok()?;
        let known = self.known.borrow();
        let places = known.get(name)?.places.borrow();
        let place = places.get(tenant).filter(|place| place.is_current(now))?;
        self.used.set(now);
        Some(Rc::clone(place))
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
            let known = self.find(series).await?;
            let tenant = known.record.tenant(tenant).map_err(|why| {
                Failure::new(Status::ValueRefused, format!("series {series:?}: {why}"))
            })?;
            let now = clock::boot();
            self.used.set(now);
            let left = match self.standing(&known, now) {
                Some(Standing::In(period, until)) => return known.place(tenant, period, until),
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
        let get = || self.known.borrow().get(name).cloned();
        let now = clock::boot().0;
        let fresh = self.asked.get().is_some_and(|asked| now < asked.0 + 2 * READ_EVERY_MS);
        if let Some(known) = get().filter(|_| fresh) {
            return Ok(known);
        }
        let failure = self.read_again().await.err();
        match (get(), failure) {
            (Some(known), _) => Ok(known),
            (None, Some(failure)) => Err(failure),
            (None, None) => Err(Failure::new(
                Status::TagUnknown,
                format!("there is no series {name:?}; create it with leafctl series create"),
            )),
        }
    }

    /// The series that are known, by name.
    pub fn all(&self) -> Vec<Rc<KnownSeries>> {
        let mut all: Vec<_> = self.known.borrow().values().cloned().collect();
        all.sort_by(|one, other| one.name.cmp(&other.name));
        all
    }

    /// The current period; `None` if the store's clock was never read.
    pub fn standing(&self, series: &KnownSeries, now: BootMs) -> Option<Standing> {
        Some(self.sample.get()?.standing(series.record.format.kind(), &series.zone, now))
    }

    /// Whether it is a place's period now.
    pub fn is_now(&self, place: &Place) -> bool {
        let standing = self.standing(&place.series, clock::boot());
        matches!(standing, Some(Standing::In(period, _)) if period == place.period)
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
            match KnownSeries::of_record(&name, &text) {
                Ok(series) if known.get(&*name).is_some_and(|it| it.record == series.record) => {}
                Ok(series) => drop(known.insert(name.into(), Rc::new(series))),
                Err(why) => {
                    warn!(series = name, "this host can't issue numbers of the series: {why:#}")
                }
            }
        }
        for series in known.values() {
            self.follow(series);
        }
        Ok(())
    }

    /// Applies what is newly known of the store's clock to the periods in use.
    fn follow(&self, series: &KnownSeries) {
        let standing = self.standing(series, clock::boot());
        series.places.borrow_mut().retain(|_, place| {
            let until = match standing {
                Some(Standing::In(period, until)) if period == place.period => until,
                _ => BootMs(0),
            };
            place.until.set(until);
            until > BootMs(0)
        });
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
    fn of_record(name: &str, text: &str) -> anyhow::Result<KnownSeries> {
        let record: Series = serde_json::from_str(text).context("its record makes no sense")?;
        let zone = TimeZone::get(&record.timezone).context("install tzdata")?;
        Ok(KnownSeries { name: name.into(), record, zone, places: RefCell::default() })
    }

    /// See [`Series::tags_of`].
    pub fn tags_of(&self, tenant: &str) -> String {
        self.record.tags_of(&self.name, tenant)
    }

    /// A tenant's period, which is the current one until this instant.
    fn place(
        self: &Rc<Self>,
        tenant: String,
        period: Period,
        until: BootMs,
    ) -> Result<Rc<Place>, Failure> {
        let known = self.places.borrow().get(&*tenant).filter(|it| it.period == period).cloned();
        let place = match known {
            Some(place) => place,
            None => self.place_in(tenant, period)?,
        };
        place.until.set(until);
        Ok(place)
    }

    /// Remembers a tenant's period, because a number of it was drawn.
    pub fn keep(&self, place: &Rc<Place>) {
        let mut places = self.places.borrow_mut();
        if places.get(&place.tenant).is_some_and(|known| Rc::ptr_eq(known, place)) {
            return;
        }
        let ahead = PREPARED_MS - fastrand::u64(..PREPARED_MS / 2);
        place.prepare_at.set(Some(BootMs(place.until.get().0.saturating_sub(ahead))));
        // Makes room by removing those of ended periods.
        let now = clock::boot();
        places.retain(|_, place| place.is_current(now));
        places.insert(place.tenant.clone(), Rc::clone(place));
    }

    /// A tenant's numbers in any period.
    ///
    /// # Errors
    /// The format can't name the period's year.
    pub fn place_in(self: &Rc<Self>, tenant: String, period: Period) -> Result<Rc<Place>, Failure> {
        let template = self.record.format.template(period, &tenant).ok_or_else(|| {
            let words =
                format!("series {:?} has two digits for the year, and it is {period}", self.name);
            Failure::new(Status::TimeExhausted, words)
        })?;
        Ok(Rc::new(Place {
            series: Rc::clone(self),
            tag: self.record.tag_of(&self.name, &tenant, period),
            tenant: tenant.into(),
            period,
            template,
            until: Cell::default(),
            warned: Cell::default(),
            prepare_at: Cell::default(),
        }))
    }

    /// The places whose next period is to be prepared now.
    pub fn due(&self, now: BootMs) -> Vec<Rc<Place>> {
        let places = self.places.borrow();
        let due =
            places.values().filter(|place| place.prepare_at.get().is_some_and(|at| at <= now));
        due.cloned().collect()
    }
}

impl Place {
    /// Whether its numbers may be issued.
    pub fn is_current(&self, now: BootMs) -> bool {
        now < self.until.get()
    }

    /// When its numbers may no longer be issued.
    pub fn until(&self) -> BootMs {
        self.until.get()
    }

    /// Writes a number that is issued.
    pub fn write(&self, number: u64, text: &mut String) {
        if number >= self.series.record.warn_from() && !self.warned.replace(true) {
            let (name, period) = (&self.series.name, self.period);
            warn!(
                series = %name, tenant = %self.tenant, ?period, number,
                "80 % of the numbers that have room in the format are used in this period: soon they {}",
                match self.series.record.overflow {
                    leafd_core::series::Overflow::Grow => "get longer",
                    leafd_core::series::Overflow::Refuse => "run out",
                }
            );
        }
        self.template.write(number, text);
    }
}
