//! Three MySQL servers in Group Replication, with daemons that prefer different ones. The primary is killed, changed
//! and stopped, the majority is lost, and members are reset to old copies.

use std::time::Duration;

use leafd_tests::host::{Host, eventually};
use leafd_tests::servers::Server as _;
use leafd_tests::servers::group::Group;
use leafd_tests::servers::mysqld::Engine;

use crate::course::{Course, Promised, SNOWFLAKE, STORE, create_tags};

/// The promised maximum time for a strict id once a primary serves: the default `failover_settle`, the time after which
/// the group expels a stopped server, and two seconds.
const STRICT_LATE: Duration = Duration::from_secs(15);

/// How long hosts may take to notice a change and claim again, on a busy machine.
const WITHIN: Duration = Duration::from_secs(120);

/// Makes another server the primary.
const ELECTS: &str = "group_replication_set_as_primary";

/// How long outages and calm periods last.
const LASTS: Duration = Duration::from_secs(5);

/// Causes a fail-over, as each new primary is one, and waits until every host has handled it.
#[track_caller]
fn fails_over(course: &Course, change: impl FnOnce()) {
    let count = |host: &Host| host.status()["segments"]["stores"][0]["failovers"].as_u64();
    let before: Vec<_> = course.hosts.iter().map(count).collect();
    change();
    for (host, before) in course.hosts.iter().zip(before) {
        eventually("it fails over and claims again", WITHIN, || {
            let is_ready = host.status()["segments"]["stores"][0]["ready"] == true;
            (is_ready && count(host) > before).then_some(())
        });
    }
}

#[test]
fn daemons_that_prefer_different_servers() {
    if !Engine::Mysql.is_tested() {
        return;
    }
    let mut group = Group::new();
    let new = |first: usize| Host::on_store(&group.url_from(first));
    let mut hosts: Vec<Host> = (0..3).map(new).collect();
    hosts.iter_mut().for_each(Host::start);
    for host in &hosts {
        host.raw().draw_until(SNOWFLAKE, WITHIN);
    }
    create_tags(&hosts[0]);
    let mut course = Course::begin("Group Replication", STORE, hosts, group.probes());
    course.step("no fault", Promised::Ids, |_| std::thread::sleep(LASTS));
    let all = [0, 1, 2];
    let but = |one: usize| all.into_iter().filter(|other| *other != one).collect::<Vec<_>>();
    course.step("primary killed, comes back", Promised::Ids, |course| {
        let primary = group.primary_of(&all);
        fails_over(course, || group.servers[primary].kill());
        group.servers[primary].start();
        group.is_whole();
    });
    course.step("primary changed by an operator", Promised::Ids, |course| {
        let next = but(group.primary_of(&all))[0];
        fails_over(course, || group.elect(next, ELECTS));
    });
    course.step("primary stopped (SIGSTOP)", Promised::Ids, |course| {
        let primary = group.primary_of(&all);
        fails_over(course, || group.servers[primary].freeze());
        group.servers[primary].thaw();
        group.is_whole();
    });
    course.step("primary and another one killed, the third one forced", Promised::Ids, |course| {
        let primary = group.primary_of(&all);
        let [other, third] = but(primary)[..] else { unreachable!("there are three") };
        fails_over(course, || {
            group.servers[primary].kill();
            group.servers[other].kill();
            std::thread::sleep(LASTS);
            group.force(third);
        });
        group.servers[primary].start();
        group.servers[other].start();
        group.is_whole();
    });
    course.step("member restored from an old copy, made primary", Promised::Ids, |course| {
        let member = but(group.primary_of(&all))[0];
        let copy = group.servers[member].snapshot();
        course.goes_on();
        group.servers[member].put_back(&copy);
        group.is_whole();
        fails_over(course, || group.elect(member, ELECTS));
    });
    course.step("several primaries temporarily", Promised::Ids, |_| {
        let primary = group.primary_of(&all);
        group.switch_to_many_primaries();
        let mut refused = Host::on_store(&group.url_from(0));
        refused.start();
        eventually("it is refused by name", WITHIN, || {
            let words = refused.status()["segments"]["stores"][0].to_string();
            words.contains("Group Replication with several primaries").then_some(())
        });
        group.elect(primary, "group_replication_switch_to_single_primary_mode");
    });
    course.step("all killed, restarted from an old copy", Promised::Nothing, |course| {
        let primary = group.primary_of(&all);
        let copy = group.servers[primary].snapshot();
        course.goes_on();
        fails_over(course, || group.begin_anew(primary, &copy));
    });
    course.finish().judge(STRICT_LATE);
}
