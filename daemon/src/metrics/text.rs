//! Writes the text: OpenMetrics with the reference encoder, and Prometheus' older format made from it.

use std::fmt::{self, Write as _};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;
use serde_json::Value;

use super::paths::{self, Labels, plain};
use super::table::{HISTOGRAMS, INFOS, Kind, METRICS};
use super::tags::{Gathered, OTHERS, TagFigures};
use super::{Form, Format, Times, process};
use crate::histogram::BOUNDS_SECONDS;

/// A metric with all its series.
#[derive(Debug)]
struct Family {
    name: &'static str,
    help: &'static str,
    kind: MetricType,
    series: Vec<(Labels, Sample)>,
}

#[derive(Debug)]
enum Sample {
    /// A whole number in full: a tag may have issued more ids than a float can count exactly.
    Whole(u64),
    Number(f64),
    /// Only the labels have information.
    Info,
    Times(crate::histogram::Counted),
}

#[derive(Debug)]
struct Families(Vec<Family>);

const NONE: [(&str, &str); 0] = [];

/// Writes the whole text.
pub(super) fn write(status: &Value, times: &Times, tags: &Gathered, form: Form) -> String {
    let mut families = of_status(status);
    families.extend(of_times(times));
    families.extend(of_tags(tags));
    let process = if form.process { process::figures() } else { Vec::new() };
    families.extend(process.into_iter().map(|(name, help, counter, value)| Family {
        name,
        help,
        kind: if counter { MetricType::Counter } else { MetricType::Gauge },
        series: vec![(Labels::new(), Sample::Number(value))],
    }));
    families.retain(|family| !family.series.is_empty());
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Families(families)));
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, &registry).expect("a String takes all");
    match form.format {
        Format::OpenMetrics => text,
        Format::Prometheus => older(&text),
    }
}

fn of_status(status: &Value) -> Vec<Family> {
    let mut families: Vec<Family> = METRICS
        .iter()
        .map(|metric| {
            let found = paths::find(status, metric.path);
            let sample = |(labels, value): (Labels, &Value)| {
                let sample = match (metric.kind, value) {
                    (_, Value::Bool(is)) => Sample::Whole(u64::from(*is)),
                    (Kind::GaugeOfMs, value) => Sample::Number(value.as_f64()? / 1_000.0),
                    (_, value) => match value.as_u64() {
                        Some(whole) => Sample::Whole(whole),
                        None => Sample::Number(value.as_f64()?),
                    },
                };
                Some((labels, sample))
            };
            let counter = metric.kind == Kind::Counter;
            Family {
                name: metric.name,
                help: metric.help,
                kind: if counter { MetricType::Counter } else { MetricType::Gauge },
                series: found.into_iter().filter_map(sample).collect(),
            }
        })
        .collect();
    families.extend(INFOS.iter().map(|info| {
        let found = paths::find(status, info.path);
        let labels = |(mut labels, value): (Labels, &Value)| {
            let members = info.members.iter();
            let more = members.map(|(label, member)| Some((*label, plain(value.pointer(member)?))));
            labels.extend(more.collect::<Option<Vec<_>>>()?);
            let known = labels.iter().all(|(_, text)| text != "null");
            known.then_some((labels, Sample::Info))
        };
        Family {
            name: info.name,
            help: info.help,
            kind: MetricType::Info,
            series: found.into_iter().filter_map(labels).collect(),
        }
    }));
    families
}

fn of_times(times: &Times) -> Vec<Family> {
    let family = |(name, help): &(&'static str, &'static str)| {
        let these = times.iter().filter(|(of, _, _)| of == name);
        let series = these.map(|(_, store, counted)| {
            let labels = store.iter().map(|store| ("store", store.clone())).collect();
            (labels, Sample::Times(counted.clone()))
        });
        Family { name, help, kind: MetricType::Histogram, series: series.collect() }
    };
    HISTOGRAMS.iter().map(family).collect()
}

fn of_tags(tags: &Gathered) -> Vec<Family> {
    let others = &tags.others;
    let family =
        |name, help, kind, of: &dyn Fn(&TagFigures) -> Option<Sample>, rest: Option<Sample>| {
            let label = |tag: &str| vec![("tag", tag.to_owned())];
            let mut series: Vec<(Labels, Sample)> =
                tags.named.iter().filter_map(|tag| Some((label(&tag.tag), of(tag)?))).collect();
            series.extend(rest.filter(|_| others.tags > 0).map(|rest| (label(OTHERS), rest)));
            Family { name, help, kind, series }
        };
    vec![
        family(
            "leafd_tag_ids_issued",
            "Ids of the tag that this daemon has issued since the tag came into use. Not for the others together: see \
             leafd_segment_ids_issued_total.",
            MetricType::Counter,
            &|tag| Some(Sample::Whole(tag.issued)),
            None,
        ),
        family(
            "leafd_tag_ids_per_second",
            "The tag's measured rate, by which ids are claimed ahead.",
            MetricType::Gauge,
            &|tag| Some(Sample::Number(tag.ids_per_second)),
            Some(Sample::Number(others.ids_per_second)),
        ),
        family(
            "leafd_tag_ids_held",
            "Ids of the tag that are claimed and not issued.",
            MetricType::Gauge,
            &|tag| Some(Sample::Whole(tag.held)),
            Some(Sample::Whole(others.held)),
        ),
        family(
            "leafd_tag_requests_waiting",
            "Requests that wait for ids of the tag.",
            MetricType::Gauge,
            &|tag| Some(Sample::Whole(tag.waiting)),
            Some(Sample::Whole(others.waiting)),
        ),
        family(
            "leafd_tag_runway_seconds",
            "How long the ids held last at the measured rate, without the store. Not for strict tags, which hold none, nor \
             while nothing is drawn; of the others the shortest.",
            MetricType::Gauge,
            &|tag| tag.lasts_seconds.map(Sample::Number),
            others.lasts_seconds.map(Sample::Number),
        ),
        family(
            "leafd_tag_ceiling_used_ratio",
            "How much of the numbers up to the tag's ceiling is claimed, from 0 to 1; of the others the most.",
            MetricType::Gauge,
            &|tag| Some(Sample::Number(tag.ceiling_used)),
            Some(Sample::Number(others.ceiling_used)),
        ),
    ]
}

impl Collector for Families {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        for family in &self.0 {
            let mut metric =
                encoder.encode_descriptor(family.name, family.help, None, family.kind)?;
            for (labels, sample) in &family.series {
                match (sample, labels.is_empty()) {
                    (Sample::Info, _) => metric.encode_info(labels)?,
                    (_, true) => sample.encode(family.kind, &mut metric)?,
                    (_, false) => sample.encode(family.kind, &mut metric.encode_family(labels)?)?,
                }
            }
        }
        Ok(())
    }
}

impl Sample {
    fn encode(&self, kind: MetricType, metric: &mut MetricEncoder<'_>) -> fmt::Result {
        match (self, kind) {
            (Sample::Whole(value), MetricType::Counter) => {
                metric.encode_counter::<[(&str, &str); 0], _, f64>(value, None)
            }
            (Sample::Number(value), MetricType::Counter) => {
                metric.encode_counter::<[(&str, &str); 0], _, f64>(value, None)
            }
            (Sample::Whole(value), _) => metric.encode_gauge(value),
            (Sample::Number(value), _) => metric.encode_gauge(value),
            (Sample::Info, _) => metric.encode_info(&NONE),
            (Sample::Times(counted), _) => {
                let buckets: Vec<(f64, u64)> =
                    BOUNDS_SECONDS.into_iter().zip(counted.counts).collect();
                metric.encode_histogram::<[(&str, &str); 0]>(
                    counted.sum_seconds,
                    counted.count(),
                    &buckets,
                    None,
                )
            }
        }
    }
}

/// Makes Prometheus' older format: counters have the names of their samples, an info is a gauge, and there are neither
/// units nor an end mark.
fn older(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut help = None;
    for line in text.lines() {
        if let Some(words) = line.strip_prefix("# HELP ") {
            help = words.split_once(' ');
        } else if let Some((name, kind)) =
            line.strip_prefix("# TYPE ").and_then(|words| words.split_once(' '))
        {
            let (suffix, kind) = match kind {
                "counter" => ("_total", "counter"),
                "info" => ("_info", "gauge"),
                other => ("", other),
            };
            if let Some((_, help)) = help.take() {
                let _ = writeln!(out, "# HELP {name}{suffix} {help}");
            }
            let _ = writeln!(out, "# TYPE {name}{suffix} {kind}");
        } else if !line.starts_with('#') {
            out.push_str(line);
            out.push('\n');
        }
    }
    out
}
