//! Document numbers: draws them, and reads them back. Their counts are tags.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use leafd_wire::{DEADLINE_MS_MAX, IdsRequest, NUMBERS_MAX, Run, Status, opcode};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tracing::warn;

use super::session::Source;
use super::tag_stores::TagStores;
use super::tags::{administrative, json as to_json, range, refused};
use super::{Dispatcher, PeerRequest, Session, quotas};
use crate::clock;
use crate::config::Peer;
use crate::engine::segments::{Cause, SegmentTag};
use crate::engine::series::{KnownSeries, Place, READ_AGAIN_MS};
use crate::reply::Failure;
use crate::store::Store;
use leafd_core::series::{Period, Series, is_tag_of_series};
use leafd_core::shares::Claimant;
use leafd_core::store::{NewTag, StoreError};
use leafd_core::{BootMs, Tag, UnixMs, Want};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ListSeries {}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Check {
    text: String,
}

/// A request for numbers that can't be answered at once.
struct Draw {
    session: Session,
    /// Of the series, or of the series and a tenant: `orders/acme`.
    name: String,
    want: Want,
    deadline: BootMs,
}

/// The fewest numbers of a period that a host claims at a time, and so its smallest reserve for a store outage.
const STEP: u64 = 10;

/// How many old periods are deleted when one begins.
const DELETED_AT_ONCE: u32 = 100;

const DAY_MS: u64 = 86_400_000;

/// How long after a request's deadline waiting for the store ends, in milliseconds. A request that waits for ids is
/// answered or refused at the deadline itself.
const GRACE_MS: u64 = 50;

impl Dispatcher {
    /// Answers a request for the next numbers of a series: at once if the period is known and this host holds some.
    pub(super) fn series_next(self: &Rc<Self>, request: &PeerRequest<'_>) -> Result<(), Failure> {
        let PeerRequest { session, header, body } = *request;
        let asked = IdsRequest::decode(body)?;
        if asked.count == 0 || asked.count > NUMBERS_MAX {
            let words =
                format!("a request can draw 1 to {NUMBERS_MAX} numbers, not {}", asked.count);
            return Err(Failure::new(Status::CountInvalid, words));
        }
        if let Some(failure) = self.writer.failure() {
            return Err(failure);
        }
        let now = clock::boot();
        let want = Want { count: asked.count, allow_partial: false };
        let name = String::from_utf8_lossy(asked.tag);
        let mut runs = session.runs.borrow_mut();
        runs.clear();
        // Otherwise, the task charges quotas and reports errors.
        if let Some(place) = self.series.at_once(&name, now)
            && let Ok((Source::Segment(tag), None)) =
                self.source(session, place.tag.as_str().as_bytes())
            && self.segments.take(&tag, want, &mut runs)
        {
            session.outbox.given(tag.trace_key, &runs);
            session.outbox.numbers(header, &place.issue(&runs), &runs);
            return Ok(());
        }
        let within_ms = u64::from(asked.deadline_ms.min(DEADLINE_MS_MAX));
        let deadline = BootMs(now.0 + within_ms);
        let draw = Draw { session: session.for_task(), name: name.into_owned(), want, deadline };
        let draw = Rc::new(draw);
        let (reply, dispatcher) = (session.outbox.later(*header), Rc::clone(self));
        tokio::task::spawn_local(async move {
            let within = Duration::from_millis(within_ms + GRACE_MS);
            match tokio::time::timeout(within, dispatcher.draw(&draw)).await {
                Ok(Ok((texts, runs))) => reply.numbers(&texts, &runs),
                Ok(Err(failure)) => reply.failure(&failure),
                Err(_) => reply.failure(&Failure::new(
                    Status::Deadline,
                    format!("the store did not answer in time for series {:?}", draw.name),
                )),
            }
        });
        Ok(())
    }

    /// Draws numbers: waits for boundaries, creates the period's tag, and waits for its ids. The caller sets a time limit.
    async fn draw(self: &Rc<Self>, draw: &Rc<Draw>) -> Result<(Vec<u8>, Vec<Run>), Failure> {
        loop {
            let (place, until) = self.series.settle(&draw.name, draw.deadline).await?;
            let (name, mut want) = (place.tag.as_str().as_bytes(), draw.want);
            let drawn = async {
                let (source, quota) = self.source(&draw.session, name)?;
                let Source::Segment(tag) = source else {
                    return Err(refused(format!("{:?} is the name of a layout", place.tag)));
                };
                if let Some(bucket) = quota {
                    let uid = draw.session.peer.uid;
                    quotas::charge(&mut bucket.borrow_mut(), &mut want, uid, name)?;
                }
                self.await_ids(&draw.session, tag, want, draw.deadline.min(until)).await
            };
            let drawn = drawn.await;
            let now = clock::boot();
            let present = self.series.present(&place.series, now);
            let is_now = present.is_ok_and(|(period, _)| period == place.period);
            match drawn {
                Ok(runs) if is_now => return Ok((place.issue(&runs), runs)),
                Ok(runs) => runs.iter().for_each(|run| {
                    self.segments.losses.note(&place.tag, Cause::Period, run.range());
                }),
                Err(failure) if failure.status == Status::TagUnknown => {
                    // One at a time, so that nobody keeps the store busy with invented tenants.
                    let one = Arc::clone(&place.series.creating).lock_owned().await;
                    // This finishes even if the request's time is over, so that a counted tenant gets its tag.
                    let (dispatcher, draw) = (Rc::clone(self), Rc::clone(draw));
                    let created = tokio::task::spawn_local(async move {
                        let _one = one;
                        if !place.tenant.is_empty() {
                            dispatcher.admit(&draw, &place).await?;
                        }
                        dispatcher.create_period(&place).await
                    });
                    created.await.unwrap_or_else(|_| Err(Failure::stopping()))?;
                }
                // The period has ended meanwhile.
                Err(_) if !is_now && now < draw.deadline => {}
                Err(failure) => return Err(failure),
            }
        }
    }

    /// Waits for ids of a tag, up to an instant.
    async fn await_ids(
        self: &Rc<Self>,
        session: &Session,
        tag: Rc<SegmentTag>,
        want: Want,
        until: BootMs,
    ) -> Result<Vec<Run>, Failure> {
        let (sender, receiver) = oneshot::channel();
        session.waits_for(Source::Segment(Rc::clone(&tag)));
        self.segments.wait(&tag, want, until, session.outbox.for_task(sender));
        // If the sender was dropped, the client has disconnected.
        receiver.await.unwrap_or_else(|_| Err(Failure::stopping()))
    }

    /// Refuses a new tenant if there are as many as the series may have. They are counted by a dense tag, so users take
    /// turns, and nothing is read but whether the tenant is new.
    async fn admit(self: &Rc<Self>, draw: &Draw, place: &Place) -> Result<(), Failure> {
        let record = &place.series.record;
        let prefix = record.tags_of(&place.tenant);
        for upstream in &self.segments.upstreams {
            let after = Tag::parse(prefix.as_bytes())?;
            let found = upstream.store.call(move |store| store.ends(Some(&after), 1)).await;
            let found = found.map_err(|error| administrative(&error))?;
            if found.iter().any(|(tag, _)| tag.as_str().starts_with(&prefix)) {
                return Ok(());
            }
        }
        let counter = record.tenants_tag();
        let want = Want { count: 1, allow_partial: false };
        loop {
            let drawn = async {
                // Access rules are about the tenant's own tags.
                let tag = self.segments.tag(&counter, draw.session.outbox.claimant)?;
                self.await_ids(&draw.session, tag, want, draw.deadline).await
            };
            match drawn.await {
                Err(failure) if failure.status == Status::TagUnknown => {
                    self.create_tag(record, &counter, record.tenants_max.into()).await?;
                }
                Err(failure) if failure.status == Status::TagExhausted => {
                    return Err(refused(format!(
                        "series {:?} has reached its limit of tenants; to raise it: leafctl tag set {counter} \
                         --ceiling N",
                        record.name,
                    )));
                }
                drawn => return drawn.map(drop),
            }
        }
    }

    /// Creates a tag of a series, unless another host has done so.
    async fn create_tag(&self, record: &Series, tag: &Tag, ceiling: u64) -> Result<(), Failure> {
        let stores = self.segments.upstreams_of(tag)?;
        if record.dense && stores.len() > 1 {
            let words = "a dense series can't live in independent primaries: change the routes";
            return Err(Failure::new(Status::StoreRefused, words));
        }
        let mut start = 1;
        for upstream in &stores {
            // A tag that was deleted continues where it was.
            let name = tag.clone();
            let end = upstream.store.call(move |store| store.claimed_end(&name)).await;
            start = start.max(end.map_err(|error| administrative(&error))?);
        }
        let new = NewTag {
            tag: tag.clone(),
            start,
            step: STEP,
            ceiling,
            strict: false,
            masked: None,
            description: Some(format!("a count of series {}", record.name)),
        };
        match TagStores::new(stores).create(&new).await {
            Ok(_) | Err(StoreError::TagExists { .. }) => {}
            Err(error) => return Err(administrative(&error)),
        }
        self.segments.changed(tag).await;
        Ok(())
    }

    /// Creates the tag of a period, unless another host has done so, and deletes old ones.
    async fn create_period(self: &Rc<Self>, place: &Place) -> Result<(), Failure> {
        let KnownSeries { record, format, .. } = &*place.series;
        self.create_tag(record, &place.tag, format.ceiling(record.overflow)).await?;
        if let Err(error) = self.delete_old(place).await {
            warn!(tag = %place.tag, "can't delete the tags of old periods: {error}");
        }
        Ok(())
    }

    /// Makes the next period of a tenant begin with held numbers, so that it can begin during a store outage.
    async fn prepare(self: &Rc<Self>, place: &Place) -> Result<(), Failure> {
        let Some(next) = place.period.next() else { return Ok(()) };
        let next = place.series.place(&place.tenant, next)?;
        self.create_period(&next).await?;
        if place.series.record.dense {
            return Ok(());
        }
        let claimant = Claimant { uid: Peer::own().uid, trusted: true };
        let (held, _) = self.segments.held_of(&place.tag, claimant).await?;
        let held = held.iter().map(|run| u64::from(run.count)).sum::<u64>();
        self.segments.hold(&next.tag, held.max(STEP), claimant).await
    }

    /// Follows the store's clock, and prepares the next periods, until dropped.
    pub(super) async fn keep_series(self: &Rc<Self>) {
        loop {
            tokio::time::sleep(clock::TICK).await;
            self.series.follow().await;
            for place in self.series.due(clock::boot()) {
                let ahead_ms = place.prepare_ms.take();
                let dispatcher = Rc::clone(self);
                tokio::task::spawn_local(async move {
                    if let Err(failure) = dispatcher.prepare(&place).await {
                        warn!(tag = %place.tag, "can't prepare the next period: {}", failure.message);
                        // The next attempt follows when half of the time is left.
                        place.prepare_ms.set(ahead_ms.map(|ms| ms / 2));
                    }
                });
            }
        }
    }

    /// Deletes the tenant's tags of periods that ended longer ago than the series' retention.
    async fn delete_old(&self, place: &Place) -> Result<(), StoreError> {
        let KnownSeries { record, format, zone, .. } = &*place.series;
        let (Some(days), Some(UnixMs(now))) = (record.retention_days, self.series.store_clock())
        else {
            return Ok(());
        };
        // All periods before this one ended that long ago. The names of tags are in the order of time.
        let then = UnixMs(now.saturating_sub(u64::from(days) * DAY_MS));
        let Some(kept) = Period::at(format.kind(), zone, then) else { return Ok(()) };
        let (prefix, kept) = (record.tags_of(&place.tenant), record.tag_of(&place.tenant, kept));
        for upstream in &self.segments.upstreams {
            let after = Tag::parse(prefix.as_bytes()).ok();
            let list = move |store: &mut Store| store.list(after.as_ref(), DELETED_AT_ONCE);
            for row in upstream.store.call(list).await? {
                let Ok(stores) = self.segments.upstreams_of(&row.tag) else { break };
                if !row.tag.as_str().starts_with(&prefix) || row.tag.as_str() >= kept.as_str() {
                    break;
                }
                TagStores::new(stores).delete(&row.tag, row.generation).await?;
            }
        }
        Ok(())
    }

    /// Answers a request about series.
    pub(super) fn about_series(self: &Rc<Self>, request: &PeerRequest<'_>) -> Result<(), Failure> {
        let (peer, what) = (request.session.peer.clone(), "administer series");
        match request.header.opcode {
            opcode::SERIES_CREATE => self.answer_administrator(request, what, Self::create_series),
            opcode::SERIES_LIST => self.answer_administrator(request, what, Self::list_series),
            _ => {
                let (asked, dispatcher) = (request.parse::<Check>()?, Rc::clone(self));
                request.answer_later(async move {
                    Ok(to_json(&dispatcher.check_number(asked, &peer).await?))
                });
                Ok(())
            }
        }
    }

    async fn create_series(self: Rc<Self>, new: Series) -> Result<Value, Failure> {
        range("tenants_max", new.tenants_max.into(), 1, u32::MAX.into())?;
        let series = KnownSeries::new(new.clone()).map_err(refused)?;
        let upstream = &self.segments.upstreams[0];
        upstream.asked_once().await;
        let under = upstream.complete().map_err(|error| administrative(&error))?;
        let created = upstream.store.call(move |store| store.create_series(&under, &new)).await;
        created.map_err(|error| administrative(&error))?;
        self.series.read(0).await?;
        Ok(self.series_row(&series))
    }

    async fn list_series(self: Rc<Self>, ListSeries {}: ListSeries) -> Result<Value, Failure> {
        self.series.read(0).await?;
        let all = self.series.all();
        let rows: Vec<Value> = all.iter().map(|series| self.series_row(series)).collect();
        Ok(json!({ "series": rows }))
    }

    fn series_row(&self, series: &KnownSeries) -> Value {
        let mut row = json!(series.record);
        let present = self.series.present(series, clock::boot()).ok();
        row["period"] = json!(present.map(|(period, _)| period.to_string()));
        row["tags"] = json!(series.record.tags_of(""));
        row
    }

    /// Reads a number in every series whose numbers the peer may draw.
    async fn check_number(&self, asked: Check, peer: &Peer) -> Result<Value, Failure> {
        self.series.read(READ_AGAIN_MS).await?;
        let mut found = Vec::new();
        for series in self.series.all() {
            let record = &series.record;
            let Some(read) = series.format.read(&asked.text, record.overflow) else { continue };
            let tag = record.tag_of(&read.tenant, read.period);
            if self.access().may_draw(tag.as_str(), peer) {
                found.push(json!({
                    "series": record.name,
                    "tenant": read.tenant,
                    "period": read.period.to_string(),
                    "number": read.number,
                    "tag": tag.as_str(),
                }));
            }
        }
        if found.is_empty() {
            return Err(refused(format!(
                "{:?} is not a document number of a series that you may draw from: it has another format, or was mistyped",
                asked.text
            )));
        }
        Ok(json!({ "text": asked.text, "found": found }))
    }

    /// The period whose numbers a tag counts, if it belongs to a series.
    async fn place_of(&self, tag: &Tag) -> Option<Rc<Place>> {
        let (_, names) = tag.as_str().split_once('/').filter(|_| is_tag_of_series(tag.as_str()))?;
        let (series, names) = names.split_once('/')?;
        let (tenant, period) = names.split_once('/').unwrap_or(("", names));
        let series = self.series.find(series).await.ok()?;
        series.place(tenant, Period::parse(series.format.kind(), period)?).ok()
    }

    /// Adds the texts of a series' numbers to an account of its tag. Held numbers of an ended period stay unused.
    pub(super) async fn add_texts(&self, tag: &Tag, account: &mut Value) {
        let Some(place) = self.place_of(tag).await else { return };
        let (end, now) = (place.period.end(&place.series.zone), self.series.store_clock());
        let ended = end.zip(now).is_some_and(|(end, now)| now >= end);
        let write = place.writer();
        for part in account["parts"].as_array_mut().into_iter().flatten() {
            for (number, text) in [("first", "first_text"), ("last", "last_text")] {
                part[text] = json!(part[number].as_u64().map(&write));
            }
            if ended && part["why"] == "held" && part["own"] == true {
                part["why"] = json!("unused");
            }
        }
    }
}
