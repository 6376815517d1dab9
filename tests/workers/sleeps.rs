//! Daemons that the scheduler doesn't run for longer than their lease, while other hosts get their workers.

use std::time::Duration;

use leafd_tests::load::Load;
use nix::sys::signal::Signal;

use crate::fleet::{Fleet, RESUMES_WITHIN, draw_of, only, recovery, refusal, worker_of};
use crate::registry::{Backend, Registry};

on_each_registry!(what_slept_past_its_lease_issues_nothing_past_its_bound);

/// Three workers and four hosts. One host after the other is stopped, loses its worker to another host, and resumes.
fn what_slept_past_its_lease_issues_nothing_past_its_bound<B: Backend>() {
    let settings = [("worker_range", "0..3"), ("restart_grace", "0s")];
    let mut fleet = Fleet::<B>::new(Registry::shared(), 4, "4s", &settings);
    let mut heir = fleet.hosts.pop().unwrap();
    for sleeper in 0..2 {
        let errors = fleet.under_load("SIGSTOP past the lease, SIGCONT", 3, |fleet, load| {
            let told = refusal(&heir, RESUMES_WITHIN);
            assert!(told.contains("all 3 workers") && told.contains("lease of 4 s"), "{told}");
            let before = fleet.hosts[sleeper].raw().draw("snowflake", 1)[0];
            fleet.hosts[sleeper].signal(Signal::SIGSTOP);
            let taken = heir.raw().draw_until("snowflake", Duration::from_secs(20));
            let worker = worker_of(taken);
            let heirs = Load::start(vec![draw_of(&heir)]);
            heirs.under_way();
            fleet.hosts[sleeper].signal(Signal::SIGCONT);
            std::thread::sleep(Duration::from_secs(1));
            let told = refusal(&fleet.hosts[sleeper], RESUMES_WITHIN);
            assert!(told.contains("all 3 workers") || told.contains("has expired"), "{told}");
            assert_eq!(worker_of(before), worker, "it is the sleeper's that is free");
            assert!(taken > before, "the heir starts above what the sleeper issued");
            let mut drawn = heirs.stop();
            drawn.add_ids("snowflake", &[taken, before]);
            drawn.errors.clear();
            fleet.drawn.add(drawn);
            heir.stop();
            let recovered = recovery(load);
            heir.start();
            Some(recovered)
        });
        only(&errors, &["NO_WORKER", "no answer"]);
    }
    fleet.hosts.push(heir);
    fleet.finish();
}
