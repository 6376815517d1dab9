//! What becomes of the stores that are frozen when a change is refused.

use anyhow::Result;

use super::moving::{Moving, Stage};
use super::sites::{Progress, Site};

/// A store that was frozen, by its place in the list, and what it recorded before.
pub(super) type Frozen = (usize, String);

/// Gives frozen stores their former places back: those that this run has frozen, and, where nothing else of the change was
/// done yet, those of a run that was cut off; without `yes` none. Says in words what was done and why.
pub(super) async fn refuse(
    sites: &mut [Site],
    frozen: Vec<Frozen>,
    yes: bool,
    refusal: &str,
) -> Result<String> {
    for (at, former) in frozen {
        sites[at].record(&former).await?;
    }
    let is_moving = |site: &Site| matches!(site.progress(), Progress::Moving(_));
    if !sites.iter().any(is_moving) {
        return Ok(format!("nothing was changed: {refusal}"));
    }
    // One that has its new place may have given ids by it already, and one that is half-way can give none by the former.
    let may_thaw = !sites
        .iter()
        .any(|site| matches!(site.progress(), Progress::Moving(Stage::Raising) | Progress::Done));
    if !may_thaw {
        return Ok(format!(
            "an earlier run has changed some stores already, and the others stay frozen until the change is finished: mend \
             with SQL what is named here, and run this again with the same configuration: {refusal}"
        ));
    }
    if !yes {
        return Ok(format!(
            "nothing was changed; an earlier run has frozen stores, which get their former places back with --yes: {refusal}"
        ));
    }
    for site in sites.iter_mut() {
        if let Some(Moving { from, .. }) = Moving::parse(site.role()) {
            // One that was new counted as one that has its new place.
            let former = if from == site.to { String::new() } else { from };
            site.record(&former).await?;
        }
    }
    Ok(format!("every store has its former place again, and nothing was changed: {refusal}"))
}
