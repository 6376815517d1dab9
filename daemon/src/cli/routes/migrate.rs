//! Carries a change of routes out. It can be cut off anywhere, and be finished by the same command:
//!
//! 1. Every store is frozen: it records that it is being changed, and from what to what. No daemon claims from it then.
//! 2. All rows are looked at once more, as tags may have been created meanwhile.
//! 3. Each name is raised, wherever it lives from now on, to the end of what was ever claimed of it anywhere.
//! 4. One store after the other records its new place. It is in use from then on. What it gives lies above all that was
//!    given by the former routes, and none of it is another store's.

use anyhow::{Result, bail};

use super::members::{Member, Progress};
use super::plan::{Known, Survey, survey};
use super::rollback;
use crate::config::Routing;
use leafd_core::Tag;
use leafd_core::store::{NewTag, STEP_MAX, StoreError, TagChange};

/// Tags raised in one call.
const RAISED_AT_ONCE: usize = 500;

/// Does it.
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

/// Makes a store know every name that it has to, the one at this place in the list.
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
        member.store.raise(&member.identity, some.to_vec(), false).await?;
    }
    Ok(())
}

/// Creates a tag that other stores have. Its ceiling may be below its start: then it is used up. False: the tag is there
/// by now, created by a former run of the command whose last statement outlived it.
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
    let created = match member.store.create(&member.identity, new).await {
        Err(StoreError::TagExists { .. }) => false,
        created => created.map(|_| true)?,
    };
    if used_up || !created {
        let change = TagChange { ceiling: Some(row.ceiling), ..TagChange::default() };
        member.store.set(tag, change).await?;
    }
    Ok(created)
}
