//! Carries out a change of routes. It may be interrupted at any point, and the same command then finishes it:
//!
//! 1. Every store is frozen: it records that it is being changed, with its former and its new role. From then on, no
//!    daemon claims from it.
//! 2. All rows are read once more, because tags may have been created meanwhile.
//! 3. Each name is raised in its new stores to the end of all claims ever made under it in any store.
//! 4. One store after another records its new role, and is in use from then on. All ids that it grants are above every
//!    id granted under the former routes, and no other store grants the same ids.

use anyhow::{Result, bail};

use super::members::{Member, Progress};
use super::plan::{Known, Survey, survey};
use super::rollback;
use crate::config::Routing;
use leafd_core::Tag;
use leafd_core::store::{NewTag, STEP_MAX, StoreError, TagChange};

/// How many tags one call raises.
const RAISED_AT_ONCE: usize = 500;

/// Carries out the change.
pub(super) async fn carry_out(members: &mut [Member], routing: &Routing) -> Result<()> {
    let mut frozen = Vec::new();
    for (at, member) in members.iter_mut().enumerate() {
        if member.progress() == Progress::Before {
            let former = member.role().to_owned();
            member.freeze().await?;
            frozen.push((at, former));
        }
    }
    let found = survey(members, routing).await?;
    if let Some(refusal) = found.refusal() {
        let said = rollback::refuse(members, frozen, true, &refusal).await?;
        bail!("tags were created while the stores were being frozen: {said}");
    }
    for (at, member) in members.iter().enumerate() {
        bring_up(at, member, &found).await?;
    }
    for member in members.iter_mut().filter(|member| member.progress() != Progress::Done) {
        let to = member.to.clone();
        member.record(&to).await?;
    }
    Ok(())
}

/// Records in a store every name that it must know; `at` is its index in the list.
async fn bring_up(at: usize, member: &Member, found: &Survey) -> Result<()> {
    let mut ends = Vec::new();
    for (tag, known) in found.known.iter().filter(|(_, known)| known.needed_in.contains(&at)) {
        match &known.row {
            Some(row) if !row.stores.contains(&at) => {
                if !create(member, tag, known).await? {
                    ends.push((tag.clone(), known.end));
                }
            }
            _ if known.ends.iter().any(|(of, end)| *of == at && *end >= known.end) => {}
            _ => ends.push((tag.clone(), known.end)),
        }
    }
    for some in ends.chunks(RAISED_AT_ONCE) {
        let (under, some) = (member.identity.clone(), some.to_vec());
        member.store.call(move |store| store.raise(&under, &some, false)).await?;
    }
    Ok(())
}

/// Creates a tag that other stores have. Its ceiling may be below its start, which means that it is exhausted. Returns
/// false if the tag exists by now, because an interrupted run's last statement arrived late.
async fn create(member: &Member, tag: &Tag, known: &Known) -> Result<bool> {
    let Some(row) = &known.row else { return Ok(true) };
    let new = NewTag {
        tag: tag.clone(),
        start: known.end,
        step: u64::try_from(row.step).unwrap_or(1).clamp(1, STEP_MAX),
        ceiling: row.ceiling.max(known.end),
        strict: false,
        masked: None,
        description: row.description.clone(),
    };
    let used_up = row.ceiling < new.start;
    let under = member.identity.clone();
    let created = match member.store.call(move |store| store.create(&under, &new)).await {
        Err(StoreError::TagExists { .. }) => false,
        created => created.map(|_| true)?,
    };
    if used_up || !created {
        let change = TagChange { ceiling: Some(row.ceiling), ..TagChange::default() };
        let tag = tag.clone();
        member.store.call(move |store| store.set(&tag, &change)).await?;
    }
    Ok(created)
}
