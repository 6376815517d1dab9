//! The configured layouts, each with the mark below which ids may have been issued.

use std::rc::Rc;
use std::time::Duration;

use anyhow::{Result, bail};

use crate::clock;
use crate::config::Config;
use crate::journal::{Journal, LayoutRecord, Recovered, Write};
use crate::registry::static_worker::StaticWorker;
use leafd_core::UnixMs;

/// Each configured layout with its recorded mark; 0 if there is none.
pub fn recorded(config: &Config, recovered: &Recovered) -> Result<Vec<LayoutRecord>> {
    let mut records = Vec::new();
    for (name, layout) in config.layouts.iter() {
        let recorded = recovered.layouts.iter().find(|record| record.name == *name);
        if let Some(recorded) = recorded
            && recorded.layout != *layout
        {
            bail!(
                "layout {name:?} is configured as {layout:?}, but ids were issued as {:?}: ids of both could collide \
                 in one column; give the new layout another name",
                recorded.layout
            );
        }
        let mark = recorded.map_or(UnixMs(0), |record| record.mark);
        records.push(LayoutRecord { name: name.clone(), layout: *layout, mark });
    }
    Ok(records)
}

/// Raises unknown marks (all of them if `doubtful`) above everything that an earlier run with the same worker number
/// may have issued: as far ahead of the clock as ids may be. The new marks are durable when this returns. This is only
/// for a number that outlives the journal. A registry knows where each lease starts, so with a registry this isn't
/// needed, and a clock that is years ahead must not spoil the journal.
pub async fn record_floors(
    journal: &Journal,
    layouts: &mut [LayoutRecord],
    fixed: Option<&Result<Rc<StaticWorker>, String>>,
    doubtful: bool,
    max_drift: Duration,
) -> Result<()> {
    let Some(Ok(fixed)) = fixed else { return Ok(()) };
    let floor = UnixMs(clock::now().unix.0.saturating_add(clock::millis(max_drift)));
    // An earlier run exceeded its drift only for a while after such a start, and recorded that.
    let floor = floor.max(fixed.issued_below());
    let unknown = layouts.iter_mut().filter(|record| doubtful || record.mark == UnixMs(0));
    let mut writes = Vec::new();
    for record in unknown {
        record.mark = record.mark.max(floor);
        writes.push(Write::LayoutMark(record.clone()));
    }
    if !writes.is_empty() {
        journal.commit(writes).await?;
    }
    Ok(())
}
