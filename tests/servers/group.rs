//! Three MySQL servers in Group Replication, one of which is the primary.

use std::path::Path;
use std::time::Duration;

use ::mysql::prelude::Queryable as _;

use super::galera::{PROBES, connect, probe};
use super::process::free_port;
use super::{DATABASE, Mysql, PASSWORD, Server as _, apply_schema};
use crate::host::eventually;

/// How long servers may take to join, or to elect a primary, on a busy machine.
const WHOLE_WITHIN: Duration = Duration::from_secs(180);

/// Any UUID.
const NAME: &str = "8f5a3f9e-0d6b-4c0e-9a53-2f8e0c1d7b11";

/// Makes a restarted server join the group. Until it has joined, it accepts no writes.
const JOINS: &str = "--loose-group-replication-start-on-boot=ON";

/// The servers.
pub struct Group {
    pub servers: [Mysql; 3],
}

impl Group {
    /// A running group with leafd's tables.
    pub fn new() -> Group {
        let ports = [(); 3].map(|()| free_port());
        let seeds = ports.map(|port| format!("127.0.0.1:{port}")).join(",");
        let servers = ports.map(|port| {
            let own = [
                "--performance-schema=ON".to_owned(),
                "--plugin-load-add=group_replication.so".to_owned(),
                "--report-host=127.0.0.1".to_owned(),
                format!("--loose-group-replication-group-name={NAME}"),
                format!("--loose-group-replication-local-address=127.0.0.1:{port}"),
                format!("--loose-group-replication-group-seeds={seeds}"),
                "--loose-group-replication-recovery-get-public-key=ON".to_owned(),
                "--loose-group-replication-start-on-boot=OFF".to_owned(),
            ];
            let mut server = Mysql::started(&own.each_ref().map(String::as_str));
            server.process_mut().program.push(JOINS.to_owned());
            server
        });
        let group = Group { servers };
        group.bootstrap(0);
        group.servers[0].populate();
        group.sql(0, PROBES);
        let privileges = "GRANT BACKUP_ADMIN, GROUP_REPLICATION_STREAM ON *.* TO follower@'%'";
        group.sql(0, privileges);
        for server in 0..3 {
            let recover = "CHANGE REPLICATION SOURCE TO SOURCE_USER = 'follower', SOURCE_PASSWORD";
            let channel = "FOR CHANNEL 'group_replication_recovery'";
            group.sql(server, &format!("{recover} = '{PASSWORD}' {channel}"));
        }
        group.is_whole();
        apply_schema(&group.url_from(0));
        group
    }

    /// A store's URL with all servers, starting with this one.
    pub fn url_from(&self, first: usize) -> String {
        let mut ports = self.servers.each_ref().map(|server| server.port());
        ports.rotate_left(first);
        Mysql::url_of(&ports, DATABASE)
    }

    /// Makes a running server begin a new group, with whatever data it has.
    pub fn bootstrap(&self, server: usize) {
        self.sql(
            server,
            "SET GLOBAL group_replication_bootstrap_group = ON; START GROUP_REPLICATION;
             SET GLOBAL group_replication_bootstrap_group = OFF",
        );
    }

    /// Kills all servers, resets the data of this one to a copy, and bootstraps the group from it.
    pub fn begin_anew(&mut self, server: usize, copy: &Path) {
        self.servers.rotate_left(server);
        let [first, others @ ..] = &mut self.servers;
        others.iter_mut().for_each(Mysql::kill);
        first.process_mut().program.retain(|word| word != JOINS);
        first.put_back(copy);
        self.servers.rotate_right(server);
        self.bootstrap(server);
    }

    /// Waits until all servers are members again, and makes those join that gave up.
    #[track_caller]
    pub fn is_whole(&self) {
        eventually("the group is whole", WHOLE_WITHIN, || {
            let state = |server: &Mysql| -> Option<String> {
                let of_it = format!("MEMBER_PORT = {}", server.port());
                ask(
                    server,
                    &format!(
                        "SELECT COALESCE(MAX(MEMBER_STATE), 'OFFLINE')
                     FROM performance_schema.replication_group_members WHERE {of_it}"
                    ),
                )
            };
            for server in &self.servers {
                if ["OFFLINE", "ERROR"].contains(&&*state(server)?) {
                    let mut client = server.connection().ok()?;
                    let _ = client.query_drop("STOP GROUP_REPLICATION");
                    let _ = client.query_drop("START GROUP_REPLICATION");
                }
            }
            self.servers.iter().all(|one| state(one).is_some_and(|is| is == "ONLINE")).then_some(())
        });
    }

    /// Waits until one of these servers is the primary. Returns which one.
    #[track_caller]
    pub fn primary_of(&self, servers: &[usize]) -> usize {
        eventually("there is a primary", WHOLE_WITHIN, || {
            let writes = |server: &&usize| probe(self.servers[**server].process())();
            servers.iter().find(writes).copied()
        })
    }

    /// Makes a server the only primary by one of the group's functions, as an operator does.
    pub fn elect(&self, server: usize, function: &str) {
        let uuid = ask(&self.servers[server], "SELECT @@GLOBAL.server_uuid").expect("it answers");
        self.sql(server, &format!("SELECT {function}('{uuid}')"));
    }

    /// Lets every server take writes.
    pub fn switch_to_many_primaries(&self) {
        self.sql(0, "SELECT group_replication_switch_to_multi_primary_mode()");
    }

    /// Makes a server that has lost the others continue alone, as an operator does.
    #[track_caller]
    pub fn force(&self, server: usize) {
        let force =
            "SET GLOBAL group_replication_force_members = @@group_replication_local_address";
        eventually("it notices that the others are gone", WHOLE_WITHIN, || {
            let mut client = self.servers[server].connection().unwrap();
            client.query_drop(force).ok()
        });
        self.sql(server, "SET GLOBAL group_replication_force_members = ''");
    }

    /// Checks whether each server serves.
    pub fn probes(&self) -> Vec<Box<dyn Fn() -> bool + Send>> {
        let boxed = |one: &Mysql| Box::new(probe(one.process())) as Box<dyn Fn() -> bool + Send>;
        self.servers.iter().map(boxed).collect()
    }

    #[track_caller]
    fn sql(&self, server: usize, sql: &str) {
        self.servers[server].ask("mysql", sql);
    }
}

impl Default for Group {
    fn default() -> Group {
        Group::new()
    }
}

fn ask(server: &Mysql, question: &str) -> Option<String> {
    connect(&server.process().dir).ok()?.query_first(question).ok()?
}
