//! Writes the two text formats.

use std::fmt::{self, Display, Write as _};

use super::Format;

/// Labels of a series.
pub(super) type Labels = Vec<(&'static str, String)>;

/// The kind of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MetricKind {
    /// It only increases. Its name is without `_total`.
    Counter,
    Gauge,
    /// Only its labels have information. Its name is without `_info`.
    Info,
}

/// A value. A whole number is written in full: a tag may have issued more ids than a float can count exactly.
#[derive(Clone, Copy, Debug)]
pub(super) enum Number {
    Whole(u64),
    Float(f64),
}

#[derive(Debug)]
pub(super) struct TextWriter {
    out: String,
    format: Format,
}

impl TextWriter {
    pub(super) fn new(format: Format) -> TextWriter {
        TextWriter { out: String::new(), format }
    }

    /// The text. Nothing may follow.
    pub(super) fn finish(mut self) -> String {
        if self.format == Format::OpenMetrics {
            self.out.push_str("# EOF\n");
        }
        self.out
    }

    /// Writes a metric, if it has series.
    pub(super) fn metric(
        &mut self,
        kind: MetricKind,
        name: &str,
        help: &str,
        series: impl IntoIterator<Item = (Labels, Number)>,
    ) {
        let (suffix, words, older_words) = match kind {
            MetricKind::Counter => ("_total", "counter", "counter"),
            MetricKind::Gauge => ("", "gauge", "gauge"),
            MetricKind::Info => ("_info", "info", "gauge"),
        };
        let mut series = series.into_iter().peekable();
        if series.peek().is_none() {
            return;
        }
        // Only in the older format do the names of a counter and of an information have their suffix here.
        match self.format {
            Format::Prometheus => self.head(&format!("{name}{suffix}"), older_words, help),
            Format::OpenMetrics => self.head(name, words, help),
        }
        for (labels, value) in series {
            self.sample(&format!("{name}{suffix}"), &labels, &value);
        }
    }

    /// Writes a histogram, if it has series. Their buckets are not cumulative, and the last one has no bound.
    pub(super) fn histogram<'a>(
        &mut self,
        name: &str,
        help: &str,
        series: impl IntoIterator<Item = (Labels, &'a [(f64, u64)], f64)>,
    ) {
        let mut series = series.into_iter().peekable();
        if series.peek().is_none() {
            return;
        }
        self.head(name, "histogram", help);
        for (labels, buckets, sum) in series {
            let mut count = 0;
            for (place, (bound, more)) in buckets.iter().enumerate() {
                count += more;
                let last = place + 1 == buckets.len();
                let bound = if last { "+Inf".to_owned() } else { format!("{bound:?}") };
                let mut labels = labels.clone();
                labels.push(("le", bound));
                self.sample(&format!("{name}_bucket"), &labels, &count);
            }
            self.sample(&format!("{name}_sum"), &labels, &sum);
            self.sample(&format!("{name}_count"), &labels, &count);
        }
    }

    fn head(&mut self, name: &str, kind: &str, help: &str) {
        let mut help = help.replace('\\', "\\\\").replace('\n', "\\n");
        if self.format == Format::OpenMetrics {
            help = help.replace('"', "\\\"");
        }
        let _ = writeln!(self.out, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    fn sample(&mut self, name: &str, labels: &Labels, value: &dyn Display) {
        self.out.push_str(name);
        for (place, (label, text)) in labels.iter().enumerate() {
            let text = text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
            let begin = if place == 0 { '{' } else { ',' };
            let _ = write!(self.out, "{begin}{label}=\"{text}\"");
        }
        if !labels.is_empty() {
            self.out.push('}');
        }
        let _ = writeln!(self.out, " {value}");
    }
}

impl Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Number::Whole(number) => number.fmt(f),
            Number::Float(number) => number.fmt(f),
        }
    }
}

impl From<u64> for Number {
    fn from(number: u64) -> Number {
        Number::Whole(number)
    }
}

impl From<bool> for Number {
    fn from(is: bool) -> Number {
        Number::Whole(is.into())
    }
}

impl From<f64> for Number {
    fn from(number: f64) -> Number {
        Number::Float(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(format: Format) -> String {
        let mut writer = TextWriter::new(format);
        let odd = vec![("tag", "a \"b\\\nc".to_owned())];
        writer.metric(MetricKind::Counter, "ids", "All \"ids\".", [(odd, u64::MAX.into())]);
        writer.metric(MetricKind::Gauge, "none", "Has no series.", []);
        writer.metric(
            MetricKind::Info,
            "build",
            "It.",
            [(vec![("v", "1".to_owned())], 1_u64.into())],
        );
        writer.histogram(
            "took",
            "Times.",
            [(Labels::new(), &[(0.5, 2), (1.0, 0), (f64::MAX, 3)][..], 7.25)],
        );
        writer.finish()
    }

    #[test]
    fn the_older_format_names_samples() {
        assert_eq!(
            written(Format::Prometheus),
            "# HELP ids_total All \"ids\".\n# TYPE ids_total counter\n\
             ids_total{tag=\"a \\\"b\\\\\\nc\"} 18446744073709551615\n\
             # HELP build_info It.\n# TYPE build_info gauge\nbuild_info{v=\"1\"} 1\n\
             # HELP took Times.\n# TYPE took histogram\n\
             took_bucket{le=\"0.5\"} 2\ntook_bucket{le=\"1.0\"} 2\ntook_bucket{le=\"+Inf\"} 5\n\
             took_sum 7.25\ntook_count 5\n"
        );
    }

    #[test]
    fn openmetrics_names_families_and_has_an_end() {
        let text = written(Format::OpenMetrics);
        assert!(
            text.starts_with("# HELP ids All \\\"ids\\\".\n# TYPE ids counter\nids_total{"),
            "{text}"
        );
        assert!(text.contains("# TYPE build info\nbuild_info{"), "{text}");
        assert!(text.ends_with("took_count 5\n# EOF\n"), "{text}");
    }
}
