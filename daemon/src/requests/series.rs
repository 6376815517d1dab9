//! Document numbers: draws them, reads them back, and accounts for them. Their counts are tags.

use std::rc::Rc;
use std::time::Duration;

use jiff::tz::TimeZone;
use leafd_wire::series::NUMBERS_MAX;
use leafd_wire::{
    DEADLINE_MS_MAX, IdsReply, IdsRequest, Run, SeriesReply, SeriesRequest, Status, opcode,
};
use serde::Deserialize;
use serde_json::{Value, json};
use tracing::{info, warn};

use super::session::{Asking, Source, body_of};
use super::tag_stores::TagStores;
use super::tags::{administrative, json as to_json, range, refused};
use super::{Dispatcher, PeerRequest, Session};
use crate::clock;
use crate::config::Peer;
use crate::engine::segments::Cause;
use crate::engine::series::{KnownSeries, Place};
use crate::engine::upstream::Upstream;
use crate::reply::Failure;
use crate::reply::outbox::ReplyTo;
use crate::store::Store;
use leafd_core::series::{
    Format, Overflow, Period, Series, Standing, TENANTS_MAX, is_name, is_tag_of_series,
};
use leafd_core::shares::Claimant;
use leafd_core::store::{NewTag, StoreError};
use leafd_core::{BootMs, Tag, UnixMs, Want};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct CreateSeries {
    series: String,
    format: String,
    #[serde(default = "utc")]
    timezone: String,
    #[serde(default = "grow")]
    overflow: Overflow,
    #[serde(default)]
    dense: bool,
    #[serde(default = "default_tenants")]
    tenants_max: u32,
    retention_days: Option<u32>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ListSeries {}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Check {
    text: String,
    series: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Account {
    series: String,
    #[serde(default)]
    tenant: String,
    /// By default the present period.
    period: Option<String>,
    #[serde(default = "first_number")]
    first: u64,
}

/// A request for numbers that can't be answered at once.
struct Draw {
    series: String,
    tenant: String,
    count: u32,
    deadline: BootMs,
    peer: Peer,
    claimant: Claimant,
    pid: u32,
}

/// The fewest numbers of a period that a host claims at a time, and so its smallest reserve for a store outage.
const STEP: u64 = 10;

/// How often a draw begins again because its period has ended, or the tag was missing.
const TRIES_MAX: u32 = 5;

/// How often a waiting request looks whether its client is gone.
const GONE_CHECKED: Duration = Duration::from_millis(100);

/// After a failed attempt to prepare a period, the next one is made this many milliseconds later.
const PREPARED_AGAIN_MS: u64 = 30_000;

/// How many old periods are deleted when one begins.
const DELETED_AT_ONCE: u32 = 100;

const DAY_MS: u64 = 86_400_000;

fn utc() -> String {
    "UTC".to_owned()
}

fn grow() -> Overflow {
    Overflow::Grow
}

fn default_tenants() -> u32 {
    1_000
}

fn first_number() -> u64 {
    1
}

impl Dispatcher {
    /// Answers a request for the next numbers of a series.
    pub(super) fn series_next(self: &Rc<Self>, request: &PeerRequest<'_>) -> Result<(), Failure> {
        let PeerRequest { session, header, body } = *request;
        let asked = SeriesRequest::decode(body)?;
        if asked.count == 0 || asked.count > NUMBERS_MAX {
            let words = format!("a request takes 1 to {NUMBERS_MAX} numbers, not {}", asked.count);
            return Err(Failure::new(Status::CountInvalid, words));
        }
        if let Some(failure) = self.writer.failure() {
            return Err(failure);
        }
        let now = clock::boot();
        if let Some(place) = self.series.place(asked.series, asked.tenant, now)
            && self.take_numbers(session, &place, asked.count)?
        {
            let texts = texts(&place, &session.runs.borrow());
            session.outbox.body(header, &texts);
            return Ok(());
        }
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let draw = Draw {
            series: text(asked.series),
            tenant: text(asked.tenant),
            count: asked.count,
            deadline: BootMs(now.0 + u64::from(asked.deadline_ms.min(DEADLINE_MS_MAX))),
            peer: session.peer.clone(),
            claimant: session.outbox.claimant,
            pid: session.outbox.pid(),
        };
        let (reply, dispatcher) = (session.outbox.later(*header), Rc::clone(self));
        tokio::task::spawn_local(async move {
            match dispatcher.draw(&draw, &reply).await {
                Ok(texts) => reply.body(&texts),
                Err(failure) => reply.failure(&failure),
            }
        });
        Ok(())
    }

    /// Takes numbers that this host holds, if nothing else must be decided first. If it returns true, the session has
    /// them.
    fn take_numbers(
        self: &Rc<Self>,
        session: &Session,
        place: &Place,
        count: u32,
    ) -> Result<bool, Failure> {
        let found = match self.source(session, place.tag.as_str().as_bytes()) {
            Err(failure) if failure.status == Status::TagUnknown => return Ok(false),
            found => found?,
        };
        let (Source::Segment(tag), None) = found else { return Ok(false) };
        let mut runs = session.runs.borrow_mut();
        runs.clear();
        let taken = self.segments.take(&tag, Want { count, allow_partial: false }, &mut runs);
        if taken {
            session.outbox.given(tag.trace_key, &runs);
            session.outbox.counts(&runs);
        }
        Ok(taken)
    }

    /// Draws numbers: waits for boundaries, creates the period's tag, and waits for its ids.
    async fn draw(self: &Rc<Self>, draw: &Draw, reply: &ReplyTo) -> Result<Vec<u8>, Failure> {
        for _ in 0..TRIES_MAX {
            let place = self.series.settle(&draw.series, &draw.tenant, draw.deadline).await?;
            let until = draw.deadline.min(place.until());
            let drawn = self.draw_ids(draw, &place.tag, until, reply).await;
            let is_now = self.series.is_now(&place);
            match drawn {
                Ok(runs) if is_now => {
                    place.series.keep(&place);
                    return Ok(texts(&place, &runs));
                }
                Ok(runs) => {
                    let name = &place.tag;
                    runs.iter().for_each(|run| {
                        self.segments.losses.note(name, Cause::Period, run.range())
                    });
                }
                Err(failure) if failure.status == Status::TagUnknown => {
                    self.create_period(&place).await?;
                }
                Err(failure) if !is_now && clock::boot() < draw.deadline => {
                    info!(
                        series = draw.series,
                        "a period ended while numbers were drawn: {}", failure.message
                    );
                }
                Err(failure) => return Err(failure),
            }
        }
        Err(Failure::soon_over(
            Status::Overloaded,
            format!("the periods of series {:?} change too fast; retry", draw.series),
        ))
    }

    /// Draws ids of a tag as a client would, up to an instant.
    async fn draw_ids(
        self: &Rc<Self>,
        draw: &Draw,
        tag: &Tag,
        until: BootMs,
        reply: &ReplyTo,
    ) -> Result<Vec<Run>, Failure> {
        let left = until.0.saturating_sub(clock::boot().0);
        let mut asked = Vec::new();
        let deadline_ms = u32::try_from(left).unwrap_or(DEADLINE_MS_MAX);
        IdsRequest { tag: tag.as_str().as_bytes(), count: draw.count, deadline_ms }
            .put(false, 0, &mut asked);
        let asking = Asking { dispatcher: self, session: self.session_of(draw) };
        asking.ask(&asked);
        while tokio::time::timeout(GONE_CHECKED, asking.session.outbox.answered()).await.is_err() {
            if reply.gone() {
                return Err(Failure::stopping());
            }
        }
        let body = body_of(asking.session.outbox.bytes().rest())?;
        Ok(IdsReply::decode(&body)?.runs().collect())
    }

    fn session_of(&self, draw: &Draw) -> Session {
        Session::new(draw.peer.clone(), draw.pid, draw.claimant, Rc::clone(&self.tally))
    }

    /// Creates the tag of a period, unless another host has done so.
    async fn create_period(self: &Rc<Self>, place: &Place) -> Result<(), Failure> {
        let stores = self.segments.upstreams_of(&place.tag)?;
        if place.series.record.dense && stores.len() > 1 {
            let words = "a dense series can't live in independent primaries: change routes";
            return Err(Failure::new(Status::StoreRefused, words));
        }
        let mut start = 1;
        for upstream in &stores {
            self.check_tenants(place, upstream).await?;
            // A period whose tag was deleted continues where it was.
            let tag = place.tag.clone();
            let end = upstream.store.call(move |store| store.claimed_end(&tag)).await;
            start = start.max(end.map_err(|error| administrative(&error))?);
        }
        let new = NewTag {
            tag: place.tag.clone(),
            start,
            step: STEP,
            ceiling: place.series.record.ceiling(),
            strict: false,
            masked: None,
            description: Some(format!("counts the numbers of series {}", place.series.name)),
        };
        match TagStores::new(stores).create(&new).await {
            Ok(_) | Err(StoreError::TagExists { .. }) => {}
            Err(error) => return Err(administrative(&error)),
        }
        self.segments.changed(&place.tag).await;
        if let Err(error) = self.delete_old(place).await {
            warn!(tag = %place.tag, "can't delete the tags of old periods: {error}");
        }
        Ok(())
    }

    /// Refuses a new tenant if there are as many as the series may have.
    async fn check_tenants(&self, place: &Place, upstream: &Upstream) -> Result<(), Failure> {
        let Place { series, tenant, .. } = place;
        // The first tag after a name tells the next tenant.
        let (all, most) = (series.tags_of(""), series.record.tenants_max);
        let tenant_after = async |name: String| {
            let from = Tag::parse(name.as_bytes())?;
            let found = upstream.store.call(move |store| store.ends(Some(&from), 1)).await;
            let found = found.map_err(|error| administrative(&error))?.pop();
            let rest =
                found.and_then(|(tag, _)| tag.as_str().strip_prefix(&*all).map(str::to_owned));
            Ok::<_, Failure>(rest.and_then(|rest| Some(rest.split_once('/')?.0.to_owned())))
        };
        if tenant.is_empty()
            || tenant_after(series.tags_of(tenant)).await?.as_deref() == Some(tenant)
        {
            return Ok(());
        }
        let mut after = all.clone();
        for _ in 0..most {
            // The character after the slash: past all tags of that tenant.
            match tenant_after(after).await? {
                Some(next) => after = format!("{all}{next}0"),
                None => return Ok(()),
            }
        }
        Err(refused(format!(
            "series {:?} has {most} tenants already, as many as it may have (tenants_max)",
            series.name
        )))
    }

    /// Has the next period of a tenant begin with held numbers, so that it can begin while the store is away.
    async fn prepare(self: &Rc<Self>, place: &Place) -> Result<(), Failure> {
        let Some(next) = place.period.next() else { return Ok(()) };
        let next = place.series.place_in(place.tenant.clone().into(), next)?;
        let claimant = Claimant { uid: nix::unistd::geteuid().as_raw(), trusted: true };
        let shown = TagStores::new(self.segments.upstreams_of(&next.tag)?).show(&next.tag).await;
        match shown {
            Err(StoreError::UnknownTag { .. }) => self.create_period(&next).await?,
            Err(error) => return Err(Failure::from(&error)),
            Ok(_) => {}
        }
        if place.series.record.dense {
            return Ok(());
        }
        let (held, _) = self.segments.held_of(&place.tag, claimant).await?;
        let held = held.iter().map(|run| u64::from(run.count)).sum::<u64>();
        self.segments.hold(&next.tag, held.max(STEP), claimant).await
    }

    /// Follows the store's clock, and prepares the next periods, until dropped.
    pub(super) async fn keep_series(self: &Rc<Self>) {
        loop {
            tokio::time::sleep(clock::TICK).await;
            if self.series.wants_reading() {
                // A failure is reported to the clients that draw numbers.
                let _ = self.series.read().await;
            }
            let now = clock::boot();
            for series in self.series.all() {
                for place in series.due(now) {
                    place.prepare_at.set(None);
                    let dispatcher = Rc::clone(self);
                    tokio::task::spawn_local(async move {
                        if let Err(failure) = dispatcher.prepare(&place).await {
                            warn!(tag = %place.tag, "can't prepare the next period: {}", failure.message);
                            let again = clock::boot().0 + PREPARED_AGAIN_MS;
                            place.prepare_at.set(Some(BootMs(again)));
                        }
                    });
                }
            }
        }
    }

    /// Deletes the tenant's tags of periods that ended longer ago than the series' retention.
    async fn delete_old(&self, place: &Place) -> Result<(), StoreError> {
        let Place { series, tenant, .. } = place;
        let (Some(days), Some((_, now))) =
            (series.record.retention_days, self.series.store_clock())
        else {
            return Ok(());
        };
        let prefix = series.tags_of(tenant);
        for upstream in &self.segments.upstreams {
            let after = Tag::parse(prefix.as_bytes()).ok();
            let list = move |store: &mut Store| store.list(after.as_ref(), DELETED_AT_ONCE);
            for row in upstream.store.call(list).await? {
                let period = row.tag.as_str().strip_prefix(&*prefix);
                let period =
                    period.and_then(|text| Period::parse(series.record.format.kind(), text));
                // They are in the order of time, and other tags follow.
                match period.and_then(|period| period.end(&series.zone)) {
                    Some(UnixMs(end)) if end + u64::from(days) * DAY_MS <= now => {}
                    _ => break,
                }
                let Ok(stores) = self.segments.upstreams_of(&row.tag) else { break };
                TagStores::new(stores).delete(&row.tag, row.generation).await?;
            }
        }
        Ok(())
    }

    /// Answers a request about series.
    pub(super) fn about_series(self: &Rc<Self>, request: &PeerRequest<'_>) -> Result<(), Failure> {
        let (peer, claimant) = (request.session.peer.clone(), request.session.outbox.claimant);
        let administer = "administer series";
        match request.header.opcode {
            opcode::SERIES_CREATE => self.answer_administrator(
                request,
                administer,
                async move |requests, new: CreateSeries| requests.create_series(new).await,
            ),
            opcode::SERIES_LIST => self.answer_administrator(
                request,
                administer,
                async move |requests, ListSeries {}| {
                    requests.series.read().await?;
                    let all = requests.series.all();
                    let rows: Vec<Value> =
                        all.iter().map(|series| requests.series_row(series)).collect();
                    Ok(json!({ "series": rows }))
                },
            ),
            opcode::SERIES_ACCOUNT => self.answer_administrator(
                request,
                administer,
                async move |requests, asked: Account| requests.account(asked, claimant).await,
            ),
            _ => {
                let (asked, dispatcher) = (request.parse::<Check>()?, Rc::clone(self));
                request.answer_later(async move {
                    Ok(to_json(&dispatcher.check_number(asked, &peer).await?))
                });
                Ok(())
            }
        }
    }

    async fn create_series(&self, new: CreateSeries) -> Result<Value, Failure> {
        let CreateSeries { series, format, timezone, overflow, dense, tenants_max, retention_days } =
            new;
        if !is_name(&series) {
            return Err(refused(format!(
                "{series:?} can't name a series: a name is a lower-case letter and up to 39 further letters, digits, _ and -"
            )));
        }
        let format = Format::parse(&format)
            .map_err(|why| refused(format!("{format:?} is not a format: {why}")))?;
        TimeZone::get(&timezone).map_err(|_| {
            refused(format!(
                "this host knows no time zone {timezone:?}: use an IANA name, such as Europe/Berlin, and install tzdata"
            ))
        })?;
        range("tenants_max", tenants_max.into(), 1, TENANTS_MAX.into())?;
        range("retention_days", retention_days.unwrap_or(1).into(), 1, 36_500)?;
        let record = Series { format, timezone, overflow, dense, tenants_max, retention_days };
        let upstream = &self.segments.upstreams[0];
        upstream.asked_once().await;
        let under = upstream.complete().map_err(|error| administrative(&error))?;
        let (name, entry) = (series.clone(), record.clone());
        let created = upstream.store.call(move |store| store.create_series(&under, &name, &entry));
        created.await.map_err(|error| administrative(&error))?;
        self.series.read().await?;
        Ok(self.series_row(&*self.series.find(&series).await?))
    }

    fn series_row(&self, series: &KnownSeries) -> Value {
        let mut row = json!(series.record);
        row["series"] = json!(series.name);
        let period = match self.series.standing(series, clock::boot()) {
            Some(Standing::In(period, _)) => Some(period.to_string()),
            _ => None,
        };
        row["period"] = json!(period);
        row["clock_uncertainty_ms"] = json!(self.series.store_clock().map(|clock| clock.0));
        row
    }

    /// Reads a number in every series whose numbers the peer may draw.
    async fn check_number(&self, asked: Check, peer: &Peer) -> Result<Value, Failure> {
        let all = match &asked.series {
            Some(name) => vec![self.series.find(name).await?],
            None => {
                self.series.read_again().await?;
                self.series.all()
            }
        };
        let (mut found, mut reason) = (Vec::new(), None);
        for series in all {
            let record = &series.record;
            match record.format.read(&asked.text, record.overflow) {
                Ok(number) => {
                    let place = series.place_in(number.tenant, number.period)?;
                    if self.access().may_draw(place.tag.as_str(), peer) {
                        found.push(json!({
                            "series": series.name,
                            "tenant": place.tenant,
                            "period": number.period.to_string(),
                            "number": number.number,
                            "tag": place.tag.as_str(),
                        }));
                    }
                }
                Err(why) => reason = reason.max(Some(why)),
            }
        }
        if !found.is_empty() {
            return Ok(json!({ "text": asked.text, "found": found }));
        }
        let why =
            reason.map_or_else(|| "there is no such series".to_owned(), |why| why.to_string());
        Err(refused(format!("{:?} is not a document number: {why}", asked.text)))
    }

    async fn account(
        self: &Rc<Self>,
        asked: Account,
        claimant: Claimant,
    ) -> Result<Value, Failure> {
        let series = self.series.find(&asked.series).await?;
        let tenant = series.record.tenant(&asked.tenant).map_err(|why| refused(why.to_owned()))?;
        let kind = series.record.format.kind();
        let period = match (&asked.period, self.series.standing(&series, clock::boot())) {
            (Some(text), _) => Period::parse(kind, text).ok_or_else(|| {
                refused(format!(
                    "{text:?} is not a period of series {:?}: its present one is {}",
                    asked.series,
                    self.series_row(&series)["period"]
                ))
            })?,
            (None, Some(Standing::In(period, _))) => period,
            (None, _) => return Err(refused("the present period is not known; name one")),
        };
        let place = series.place_in(tenant, period)?;
        let stores = self.segments.upstreams_of(&place.tag)?;
        let shown = TagStores::new(stores).show(&place.tag).await;
        let row = match shown {
            Err(StoreError::UnknownTag { .. }) => {
                let words =
                    format!("series {:?} has no numbers in {period}, or no longer", series.name);
                return Err(Failure::new(Status::TagUnknown, words));
            }
            shown => shown.map_err(|error| administrative(&error))?.row,
        };
        let end = row.max_id.max(1).cast_unsigned();
        let text = |number: &Value| {
            let mut text = String::new();
            number.as_u64().inspect(|number| place.template.write(*number, &mut text));
            text
        };
        let mut answer = match asked.first < end {
            true => self.explain(&place.tag, asked.first.max(1)..end, claimant).await?,
            false => json!({ "tag": place.tag.as_str(), "parts": [], "next": null, "away": [] }),
        };
        if let Some(parts) = answer["parts"].as_array_mut() {
            for part in parts {
                (part["first_text"], part["last_text"]) =
                    (json!(text(&part["first"])), json!(text(&part["last"])));
            }
        }
        let ended = period.end(&series.zone).zip(self.series.store_clock());
        answer["ended"] = json!(ended.is_some_and(|(UnixMs(end), (_, now))| now >= end));
        (answer["series"], answer["tenant"]) = (json!(series.name), json!(place.tenant));
        (answer["period"], answer["claimed_to"]) = (json!(period.to_string()), json!(end - 1));
        Ok(answer)
    }
}

/// The texts of numbers, as the body of a reply.
fn texts(place: &Place, runs: &[Run]) -> Vec<u8> {
    let numbers = |run: &Run| run.range().step_by(run.stride as usize);
    SeriesReply::body(runs.iter().flat_map(numbers), |number, text| place.write(number, text))
}

/// Refuses to create a tag whose name is that of a series' tag.
pub(super) fn check_not_reserved(tag: &Tag) -> Result<(), Failure> {
    match is_tag_of_series(tag) {
        true => Err(refused(format!(
            "{tag:?} can't name a tag: such names count the numbers of series (leafctl series create)"
        ))),
        false => Ok(()),
    }
}
