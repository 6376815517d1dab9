//! Named snowflake layouts.

use std::collections::BTreeMap;

use jiff::Timestamp;
use leafd_wire::Layout;

use super::value::{ConfigNode, InvalidValue, Value, parse_duration};
use leafd_core::Tag;

/// Snowflake layouts by the tag name that draws from them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layouts(BTreeMap<Tag, Layout>);

/// The name of the layout that exists unless it is switched off.
const LEAF_NAME: &str = "snowflake";

/// The name of the layout that exists if it is switched on.
const JS53_NAME: &str = "js53";

const LAYOUT_KEYS: &str = "time_bits, worker_bits, sequence_bits, unit, epoch";

impl Layouts {
    /// The layout with this name.
    pub fn get(&self, name: &str) -> Option<&Layout> {
        self.0.get(name)
    }

    /// All of them, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&Tag, &Layout)> {
        self.0.iter()
    }

    /// The largest worker number that fits every layout, and the layout that sets this limit.
    pub fn worker_max(&self) -> (u64, &str) {
        let all = self.0.iter().map(|(name, layout)| (layout.worker_max(), name.as_str()));
        all.min().unwrap_or((0, LEAF_NAME))
    }
}

pub(super) fn parse(node: &ConfigNode) -> Result<Layouts, InvalidValue> {
    let mut layouts = BTreeMap::new();
    if let Ok(leaf) = Tag::parse(LEAF_NAME.as_bytes()) {
        layouts.insert(leaf, Layout::LEAF);
    }
    node.entries(|name, value| {
        let tag = Tag::parse(name.as_bytes())
            .map_err(|cause| value.bad_because(format!("its name must be a valid tag: {cause}")))?;
        let layout = match value.value {
            // A fleet that has outgrown its number of workers moves on to another layout.
            Value::Boolean(false) if name == LEAF_NAME => {
                layouts.remove(&tag);
                return Ok(());
            }
            Value::Boolean(true) if name == JS53_NAME => Layout::JS53,
            Value::Boolean(_) => {
                return Err(value.bad_for(format!(
                    "true for {JS53_NAME}, false for {LEAF_NAME}, or a table with the keys {LAYOUT_KEYS}"
                )));
            }
            _ => parse_layout(value)?,
        };
        layouts.insert(tag, layout);
        Ok(())
    })?;
    if layouts.is_empty() {
        return Err(node.bad_because("at least one layout must remain"));
    }
    Ok(Layouts(layouts))
}

fn parse_layout(node: &ConfigNode) -> Result<Layout, InvalidValue> {
    node.table().map_err(|_| node.bad_for(format!("a table with the keys {LAYOUT_KEYS}")))?;
    node.only_keys(LAYOUT_KEYS)?;
    let missing = |name: &str| {
        let reason = format!("{name} is missing; only unit may be left out");
        move || node.bad_because(reason)
    };
    let bits = |name: &str| -> Result<u8, InvalidValue> {
        let bits = node.field(name, |value| value.integer(0, 63))?.ok_or_else(missing(name))?;
        u8::try_from(bits).map_err(|_| node.bad())
    };
    let layout = Layout {
        time_bits: bits("time_bits")?,
        worker_bits: bits("worker_bits")?,
        sequence_bits: bits("sequence_bits")?,
        unit_ms: node.field("unit", parse_unit)?.unwrap_or(1),
        epoch_ms: node.field("epoch", parse_epoch)?.ok_or_else(missing("epoch"))?,
    };
    layout.check().map_err(|cause| node.bad_because(cause.to_string()))?;
    Ok(layout)
}

fn parse_unit(node: &ConfigNode) -> Result<u32, InvalidValue> {
    let unit = node.text().ok().and_then(parse_duration);
    let unit_ms = unit.and_then(|unit| u32::try_from(unit.as_millis()).ok());
    unit_ms
        .filter(|ms| (1..=leafd_wire::layout::UNIT_MS_MAX).contains(ms))
        .ok_or_else(|| node.bad_for("the length of a tick, \"1ms\" to \"1h\""))
}

fn parse_epoch(node: &ConfigNode) -> Result<u64, InvalidValue> {
    let wrong = || {
        node.bad_for(
            "an instant since 1970 in whole milliseconds, such as \"2025-01-01T00:00:00Z\" or 1735689600000",
        )
    };
    if let Value::Integer(ms) = &node.value {
        return ms.and_then(|ms| u64::try_from(ms).ok()).ok_or_else(wrong);
    }
    let text = match &node.value {
        Value::Other(_, text) | Value::Text(text) => text,
        _ => return Err(wrong()),
    };
    let instant: Timestamp = text.parse().map_err(|_| wrong())?;
    if instant.subsec_nanosecond() % 1_000_000 != 0 {
        return Err(wrong());
    }
    u64::try_from(instant.as_millisecond()).map_err(|_| wrong())
}
