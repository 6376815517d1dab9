//! Finds members of the status by a path, and the labels that the path gives them.
//!
//! `a.b` is member `b` of member `a`. `a[name=store]` is each item of the list `a`, with its member `name` as the
//! label `store`; there may be several, separated by commas. `a{result}` is each member of `a`, with its key as the
//! label `result`.

use serde_json::Value;

/// Labels, in the order in which the path gives them.
pub(super) type Labels = Vec<(&'static str, String)>;

/// Everything to which a path leads.
pub(super) fn find<'a>(status: &'a Value, path: &'static str) -> Vec<(Labels, &'a Value)> {
    let mut found = vec![(Labels::new(), status)];
    for step in path.split('.') {
        found = match (step.split_once('['), step.split_once('{')) {
            (Some((name, by)), _) => {
                let labels: Vec<_> = by
                    .trim_end_matches(']')
                    .split(',')
                    .map(|by| by.split_once('=').expect("a member and a label"))
                    .collect();
                each(found, |value| {
                    let items = value[name].as_array().into_iter().flatten();
                    let labelled = |item: &'a Value| {
                        let label = |(member, label): &(&str, &'static str)| {
                            (*label, plain(&item[*member]))
                        };
                        (labels.iter().map(label).collect(), item)
                    };
                    items.map(labelled).collect()
                })
            }
            (None, Some((name, label))) => each(found, |value| {
                let members = value[name].as_object().into_iter().flatten();
                let label = label.trim_end_matches('}');
                members.map(|(key, value)| (vec![(label, key.clone())], value)).collect()
            }),
            (None, None) => each(found, |value| vec![(Labels::new(), &value[step])]),
        };
    }
    found.retain(|(_, value)| !value.is_null());
    found
}

fn each<'a>(
    found: Vec<(Labels, &'a Value)>,
    step: impl Fn(&'a Value) -> Vec<(Labels, &'a Value)>,
) -> Vec<(Labels, &'a Value)> {
    let further = found.into_iter().flat_map(|(labels, value)| {
        step(value).into_iter().map(move |(more, value)| {
            let mut labels = labels.clone();
            labels.extend(more);
            (labels, value)
        })
    });
    further.collect()
}

/// A value as the text of a label.
pub(super) fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn lists_and_members_become_labels() {
        let status = json!({"a": [{"name": "x", "n": {"ok": 1, "no": 2}}, {"name": "y", "n": {}}], "b": {"c": 3}});
        assert_eq!(find(&status, "b.c"), [(vec![], &json!(3))]);
        assert_eq!(find(&status, "b.d"), []);
        let found = find(&status, "a[name=store].n{result}");
        let labels = |result: &str| vec![("store", "x".to_owned()), ("result", result.to_owned())];
        assert_eq!(found, [(labels("no"), &json!(2)), (labels("ok"), &json!(1))]);
    }
}
