//! Writes Prometheus' text format, version 0.0.4.

use std::fmt::{Display, Write as _};

/// Labels of a series.
pub(super) type Labels = Vec<(&'static str, String)>;

/// A value. A whole number is written in full: a tag may have issued more ids than a float can count exactly.
#[derive(Clone, Copy, Debug)]
pub(super) enum Number {
    Whole(u64),
    Float(f64),
}

/// What may be a number.
pub(super) trait Figure {
    fn number(self) -> Option<Number>;
}

#[derive(Debug, Default)]
pub(super) struct TextWriter {
    pub(super) text: String,
}

impl TextWriter {
    /// Writes a metric with one series and no labels, if it has a value.
    pub(super) fn one(&mut self, name: &str, help: &str, value: impl Figure) {
        self.metric(name, help, [(Labels::new(), value)]);
    }

    /// Writes a metric, if it has values. Counters are those whose names end in `_total`, as in all of Prometheus.
    pub(super) fn metric<F: Figure>(
        &mut self,
        name: &str,
        help: &str,
        series: impl IntoIterator<Item = (Labels, F)>,
    ) {
        let series = series.into_iter();
        let mut series =
            series.filter_map(|(labels, value)| Some((labels, value.number()?))).peekable();
        if series.peek().is_none() {
            return;
        }
        self.head(name, if name.ends_with("_total") { "counter" } else { "gauge" }, help);
        for (labels, value) in series {
            match value {
                Number::Whole(number) => self.sample(name, &labels, number),
                Number::Float(number) => self.sample(name, &labels, number),
            }
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
                self.sample(&format!("{name}_bucket"), &labels, count);
            }
            self.sample(&format!("{name}_sum"), &labels, sum);
            self.sample(&format!("{name}_count"), &labels, count);
        }
    }

    fn head(&mut self, name: &str, kind: &str, help: &str) {
        let help = help.replace('\\', "\\\\").replace('\n', "\\n");
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
    fn number(self) -> Option<Number> {
        Some(Number::Whole(self))
    }
}

impl Figure for bool {
    fn number(self) -> Option<Number> {
        Some(Number::Whole(self.into()))
    }
}

impl Figure for f64 {
    fn number(self) -> Option<Number> {
        Some(Number::Float(self))
    }
}

impl<F: Figure> Figure for Option<F> {
    fn number(self) -> Option<Number> {
        self.and_then(F::number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_is_prometheus_s() {
        let mut writer = TextWriter::default();
        let odd = vec![("tag", "a \"b\\\nc".to_owned())];
        writer.metric("ids_total", "All \"ids\".", [(odd, u64::MAX)]);
        writer.one("none", "Has no value.", None::<u64>);
        writer.metric("build_info", "It.", [(vec![("v", "1".to_owned())], true)]);
        writer.histogram(
            "took",
            "Times.",
            [(Labels::new(), &[(0.5, 2), (1.0, 0), (f64::MAX, 3)][..], 7.25)],
        );
        assert_eq!(
            writer.text,
            "# HELP ids_total All \"ids\".\n# TYPE ids_total counter\n\
             ids_total{tag=\"a \\\"b\\\\\\nc\"} 18446744073709551615\n\
             # HELP build_info It.\n# TYPE build_info gauge\nbuild_info{v=\"1\"} 1\n\
             # HELP took Times.\n# TYPE took histogram\n\
             took_bucket{le=\"0.5\"} 2\ntook_bucket{le=\"1.0\"} 2\ntook_bucket{le=\"+Inf\"} 5\n\
             took_sum 7.25\ntook_count 5\n"
        );
    }
}
