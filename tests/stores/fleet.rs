//! The benchmark of a fleet's cost for an instant: that everything in it can be measured. What it measures says nothing
//! here.

use std::time::Duration;

use leafd_tests::fleet::{Plan, run};

#[test]
fn every_figure_can_be_had() {
    let plan = Plan {
        time: Duration::from_millis(200),
        rounds: 1,
        tags: 100,
        rate_max: 10_000,
        ..Plan::default()
    };
    let report = run(&plan);
    let rows: Vec<(&str, usize)> =
        report.sections.iter().map(|section| (section.name, section.rows().count())).collect();
    let expected = [("strict", 8), ("claims", 6), ("call", 3), ("10,000 hosts", 4), ("rate", 3)];
    assert_eq!(rows, expected);
    let first = [
        ("strict", "strict, 32 clients on 4 hosts", "requests/s"),
        ("claims", "10 daemons, one tag", "claims/s"),
        ("claims", "100 claimers, 100 tags", "store CPU us a claim"),
        ("call", "a look", "p99 us"),
        ("10,000 hosts", "together", "cores"),
        ("rate", "10000 ids/s", "ids/s"),
    ];
    for (section, row, column) in first {
        let section = report.sections.iter().find(|one| one.name == section).unwrap();
        assert!(section.median(row, column).unwrap() > 0.0, "{row}, {column}");
        assert!(section.to_string().contains(row), "{section}");
    }
    assert_eq!(report.json()["sections"].as_array().unwrap().len(), expected.len());
}
