//! Decides what happens to frozen stores when a change is refused.

use anyhow::Result;

use super::members::{Member, Progress};
use super::migration_state::Frozen;

/// Restores the former roles of frozen stores: those that this run froze, each by its index in the list, with its
/// former role. If no other part of the change was made, `yes` also restores those that an interrupted run froze.
/// Returns a text that says what was done and why.
pub(super) async fn refuse(
    members: &mut [Member],
    frozen: Vec<(usize, String)>,
    yes: bool,
    refusal: &str,
) -> Result<String> {
    for (at, former) in frozen {
        members[at].record(&former).await?;
    }
    if !members.iter().any(|member| member.progress() == Progress::Frozen) {
        return Ok(format!("nothing was changed: {refusal}"));
    }
    // A store with its new role may already have issued ids.
    let may_thaw = !members.iter().any(|member| member.progress() == Progress::Done);
    if !may_thaw {
        return Ok(format!(
            "an earlier run has changed some stores already; the others stay frozen until the change is finished. \
             Correct the following with SQL, then run this again with the same configuration: {refusal}"
        ));
    }
    if !yes {
        return Ok(format!(
            "nothing was changed; an earlier run has frozen stores, and --yes restores their former roles: {refusal}"
        ));
    }
    for member in members.iter_mut() {
        if let Some(Frozen { from, .. }) = Frozen::parse(member.role()) {
            member.record(&from).await?;
        }
    }
    Ok(format!("every store has its former role again; nothing was changed: {refusal}"))
}
