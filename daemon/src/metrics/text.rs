//! Writes Prometheus' text format, version 0.0.4.

use std::fmt::{Display, Write as _};

/// What each metric is: its name, and a sentence or two.
const HELP: &str = include_str!("help.txt");

/// Labels of a series.
pub(super) type Labels = Vec<(&'static str, String)>;

/// A value that may be a number.
pub(super) trait Figure {
    /// The exact number, because a tag may have issued more ids than a float can represent exactly.
    fn text(self) -> Option<String>;
}

#[derive(Debug, Default)]
pub(super) struct TextWriter {
    pub(super) text: String,
}

impl TextWriter {
    /// Writes a metric with one series and no labels, if it has a value.
    pub(super) fn one(&mut self, name: &str, value: impl Figure) {
        self.metric(name, [(Labels::new(), value)]);
    }

    /// Writes a metric, if it has values. Counters are those whose names end in `_total`, as in all of Prometheus.
    pub(super) fn metric<F: Figure>(
        &mut self,
        name: &str,
        series: impl IntoIterator<Item = (Labels, F)>,
    ) {
        let series = series.into_iter();
        let mut series =
            series.filter_map(|(labels, value)| Some((labels, value.text()?))).peekable();
        if series.peek().is_none() {
            return;
        }
        self.head(name, if name.ends_with("_total") { "counter" } else { "gauge" });
        for (labels, value) in series {
            self.sample(name, &labels, value);
        }
    }

    /// Writes a histogram, if it has series. Their buckets are not cumulative, and the last one has no bound.
    pub(super) fn histogram<'a>(
        &mut self,
        name: &str,
        series: impl IntoIterator<Item = (Labels, &'a [(f64, u64)], f64)>,
    ) {
        let mut series = series.into_iter().peekable();
        if series.peek().is_none() {
            return;
        }
        self.head(name, "histogram");
        for (labels, buckets, sum) in series {
            let mut count = 0;
            for (place, (bound, more)) in buckets.iter().enumerate() {
                count += more;
                let last = place + 1 == buckets.len();
                let bound = if last { "+Inf".to_owned() } else { format!("{bound:?}") };
                let mut labels = labels.clone();
                labels.push(("le", bound));
                self.sample(&format!("{name}_bucket"), &labels, count);
            }
            self.sample(&format!("{name}_sum"), &labels, sum);
            self.sample(&format!("{name}_count"), &labels, count);
        }
    }

    fn head(&mut self, name: &str, kind: &str) {
        let help = HELP.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        let help = help.unwrap_or_default();
        let _ = writeln!(self.text, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    fn sample(&mut self, name: &str, labels: &Labels, value: impl Display) {
        self.text.push_str(name);
        for (place, (label, text)) in labels.iter().enumerate() {
            let text = text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
            let begin = if place == 0 { '{' } else { ',' };
            let _ = write!(self.text, "{begin}{label}=\"{text}\"");
        }
        if !labels.is_empty() {
            self.text.push('}');
        }
        let _ = writeln!(self.text, " {value}");
    }
}

impl Figure for u64 {
    fn text(self) -> Option<String> {
        Some(self.to_string())
    }
}

impl Figure for bool {
    fn text(self) -> Option<String> {
        u64::from(self).text()
    }
}

impl Figure for f64 {
    fn text(self) -> Option<String> {
        Some(self.to_string())
    }
}

impl<F: Figure> Figure for Option<F> {
    fn text(self) -> Option<String> {
        self.and_then(F::text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_is_prometheus_s() {
        let mut writer = TextWriter::default();
        let odd = vec![("tag", "a \"b\\\nc".to_owned())];
        writer.metric("leafd_claims_total", [(odd, u64::MAX)]);
        writer.one("leafd_worker_number", None::<u64>);
        writer.metric("leafd_build_info", [(vec![("v", "1".to_owned())], true)]);
        writer.histogram(
            "leafd_request_wait_seconds",
            [(Labels::new(), &[(0.5, 2), (1.0, 0), (f64::MAX, 3)][..], 7.25)],
        );
        assert_eq!(
            writer.text,
            "# HELP leafd_claims_total Claims granted by a store.\n# TYPE leafd_claims_total counter\n\
             leafd_claims_total{tag=\"a \\\"b\\\\\\nc\"} 18446744073709551615\n\
             # HELP leafd_build_info The daemon's release and its protocol version.\n\
             # TYPE leafd_build_info gauge\nleafd_build_info{v=\"1\"} 1\n\
             # HELP leafd_request_wait_seconds Time that requests for ids waited if they were not answered at once.\n\
             # TYPE leafd_request_wait_seconds histogram\n\
             leafd_request_wait_seconds_bucket{le=\"0.5\"} 2\n\
             leafd_request_wait_seconds_bucket{le=\"1.0\"} 2\n\
             leafd_request_wait_seconds_bucket{le=\"+Inf\"} 5\n\
             leafd_request_wait_seconds_sum 7.25\nleafd_request_wait_seconds_count 5\n"
        );
    }

    #[test]
    fn each_metric_has_a_text_and_each_text_a_metric() {
        let sources = [include_str!("table.rs"), include_str!("process.rs")].concat();
        let quoted = sources.split('"').skip(1).step_by(2);
        let metrics =
            quoted.filter(|text| text.starts_with("leafd_") || text.starts_with("process_"));
        let mut metrics: Vec<&str> = metrics.collect();
        let mut texts: Vec<&str> =
            HELP.lines().map(|line| line.split_once(' ').expect("a name and a text").0).collect();
        metrics.sort_unstable();
        texts.sort_unstable();
        assert_eq!(metrics, texts);
        assert!(!HELP.contains('\\'), "it would have to be escaped");
    }
}
