//! The ten most likely problems on a packaged host with its own PostgreSQL: each is really caused, identified by the
//! first message that an operator sees, and fixed with the commands on the page that the message links to. A Prometheus
//! on the host shows each one in an alert and in a panel of the dashboard.

use std::time::{Duration, Instant};

use serde_json::Value;

use crate::host::eventually;
use crate::machine::{Machine, Network, text};
use crate::package::packages;

/// How long a problem may take to show, or its fix to help, on a busy machine: a lease of [`LEAFD`], and more.
const WITHIN: Duration = Duration::from_secs(120);

/// The maximum number of commands from the page to a healthy daemon.
const COMMANDS_MAX: usize = 3;

/// The folder in which the package installs the documents.
const DOCUMENTS: &str = "/usr/share/doc/leafd/";

const LEAFD: &str = r#"store = "postgres://leafd@localhost/ids?sslrootcert=/etc/leafd/ca.pem"
worker_range = "0..1"
lease = "20s"
failover_settle = "1s"
identity = "host-1"
"#;

/// The database's certificates: valid ones, and an expired one.
const CERTIFICATES: &str = "
install -d -m 755 /etc/tls
cd /etc/tls
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 300 -subj /CN=ca -keyout ca.key -out ca.pem
openssl req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj /CN=server -keyout server.key -out server.csr
echo subjectAltName=DNS:localhost >names
sign='openssl x509 -req -in server.csr -CA ca.pem -CAkey ca.key -CAcreateserial -extfile names'
$sign -days 200 -out good.pem
$sign -days -1 -out expired.pem
cp good.pem server.pem
chown postgres server.key
chmod 600 server.key
chmod 644 *.pem
install -D -m 644 ca.pem /etc/leafd/ca.pem
";

/// A database created as in the guide, with those certificates.
const DATABASE: &str = "
cat >/etc/postgresql/15/main/conf.d/tls.conf <<'END'
ssl_cert_file = '/etc/tls/server.pem'
ssl_key_file = '/etc/tls/server.key'
END
systemctl restart postgresql
runuser -u postgres -- psql --quiet <<'END'
CREATE ROLE owner LOGIN PASSWORD 'password-of-owner';
CREATE ROLE leafd LOGIN PASSWORD 'password-of-leafd';
CREATE DATABASE ids OWNER owner;
END
";

/// The machine shares its host's clock, which no test may set. So the daemon has a separate clock, and the time
/// service's command sets that one.
const CLOCK: &str = "
echo +0 >/etc/leafd/clock
library=$(ls /usr/lib/*/faketime/libfaketime.so.1)
install -d /etc/systemd/system/leafd.service.d
cat >/etc/systemd/system/leafd.service.d/clock.conf <<END
[Service]
Environment=LD_PRELOAD=$library FAKETIME_TIMESTAMP_FILE=/etc/leafd/clock
Environment=FAKETIME_NO_CACHE=1 FAKETIME_DONT_FAKE_MONOTONIC=1 NO_FAKE_STAT=1
END
cat >/usr/bin/chronyc <<'END'
#!/bin/sh
[ \"$*\" = makestep ] && echo +0 >/etc/leafd/clock
END
chmod 755 /usr/bin/chronyc
";

/// Serves metrics as the page describes, to a Prometheus with the package's rules.
const PROMETHEUS: &str = r#"
install -D -m 644 /usr/share/doc/leafd/examples/http.conf /etc/systemd/system/leafd.service.d/http.conf
systemctl daemon-reload
systemctl enable leafd-http.socket
systemctl restart leafd
cat >/root/prometheus.yml <<'END'
global: {scrape_interval: 1s, evaluation_interval: 1s}
rule_files: [/usr/share/doc/leafd/examples/alerts.yml]
scrape_configs: [{job_name: leafd, static_configs: [{targets: ["127.0.0.1:9644"]}]}]
END
systemd-run --quiet --unit=watch prometheus --config.file=/root/prometheus.yml --storage.tsdb.path=/root/prometheus --web.listen-address=127.0.0.1:9099
"#;

/// Draws, and ignores errors.
const DRAW: &str = "leafctl next orders -n 20000 --deadline-ms 300 >/dev/null 2>&1 || true\n";

const DRAW_SNOWFLAKE: &str = "leafctl next snowflake --deadline-ms 300 >/dev/null 2>&1 || true\n";

/// Ends the daemon's connections, so that the next call logs in.
const NEW_LOGIN: &str = "runuser -u postgres -- psql --quiet --command \"SELECT pg_terminate_backend(pid) FROM \
                         pg_stat_activity WHERE usename = 'leafd'\" >/dev/null\n";

/// A problem, and how it is fixed.
struct Trouble {
    name: &'static str,
    /// Causes it.
    make: String,
    /// Shows the first message, while clients continue to draw.
    first: String,
    /// Words in the message.
    says: &'static str,
    /// The page and section that the message names.
    page: &'static str,
    alert: &'static str,
    /// A panel of the dashboard, and a check of its numbers that shows the problem.
    panel: (&'static str, fn(f64) -> bool),
    /// The commands that fix it: as the page prints them, and as they are run here. A step that the page leaves to the
    /// operator has no printed form.
    cure: Vec<(&'static str, String)>,
    /// Fails until the daemon serves again what the problem had stopped.
    well: &'static str,
}

fn troubles() -> Vec<Trouble> {
    let status = |draw: &str| format!("{draw}leafctl status || true");
    let sql = |sql: &str| format!("runuser -u postgres -- psql --quiet ids --command \"{sql}\"\n");
    let same = |command: &'static str| (command, command.to_owned());
    let orders = "leafctl next orders -n 20000 >/dev/null";
    let snowflake = "leafctl next snowflake >/dev/null";
    let none = |up: f64| up < 0.5;
    vec![
        Trouble {
            name: "the database is down",
            make: "systemctl stop postgresql".to_owned(),
            first: status(DRAW),
            says: "store away",
            page: "docs/operate/troubles.md#store_away",
            alert: "LeafdStoreAway",
            panel: ("Stores that accept claims", none),
            cure: vec![same("systemctl start postgresql")],
            well: orders,
        },
        Trouble {
            name: "the password is wrong",
            make: sql("ALTER ROLE leafd PASSWORD 'new-password-of-leafd'") + NEW_LOGIN,
            first: status(DRAW),
            says: "password authentication failed",
            page: "docs/operate/troubles.md#store_away",
            alert: "LeafdStoreAway",
            panel: ("Stores that accept claims", none),
            cure: vec![
                same("printf %s new-password-of-leafd > /etc/credstore/leafd.store_password"),
                same("systemctl restart leafd"),
            ],
            well: orders,
        },
        Trouble {
            name: "privileges are lost",
            make: sql("REVOKE UPDATE ON leaf_alloc FROM leafd"),
            first: status(DRAW),
            says: "permission denied",
            page: "docs/operate/troubles.md#claims_failing",
            alert: "LeafdStoreAway",
            panel: ("Stores that accept claims", none),
            cure: vec![
                ("leafd doctor", "leafd doctor | tee /root/advice || true".to_owned()),
                (
                    "",
                    "grep -o 'GRANT [^;]*' /root/advice | runuser -u postgres -- psql ids".to_owned(),
                ),
            ],
            well: orders,
        },
        Trouble {
            name: "the disk is full",
            make: "dd if=/dev/zero of=/var/lib/leafd/core.dump bs=4k 2>/dev/null || true".to_owned(),
            first: status(DRAW),
            says: "journal failing",
            page: "docs/operate/troubles.md#journal_failing",
            alert: "LeafdJournalFailing",
            panel: ("Requests", |_| true),
            cure: vec![
                same("df -h /var/lib/leafd"),
                same("du -axh /var/lib/leafd | sort -h | tail"),
                ("", "rm /var/lib/leafd/core.dump".to_owned()),
            ],
            well: orders,
        },
        Trouble {
            name: "the port is taken",
            // The socket is stopped first, because a scrape would make it start leafd again.
            make: "systemctl stop leafd-http.socket
                systemctl stop leafd
                systemd-run --quiet --unit=taken python3 -c '
import socket, time
taken = socket.create_server((\"127.0.0.1\", 9644))
time.sleep(6000)'
                until bash -c 'exec 3<>/dev/tcp/127.0.0.1/9644' 2>/dev/null; do sleep 0.1; done
                systemctl is-active taken
                systemctl start leafd
                leafctl next orders"
                .to_owned(),
            first: "curl --silent http://127.0.0.1:9099/api/v1/alerts".to_owned(),
            says: "LeafdAbsent",
            page: "docs/operate/troubles.md#metrics-are-missing",
            alert: "LeafdAbsent",
            panel: ("Ids issued", |_| true),
            cure: vec![
                same("ss -ltnp 'sport = :9644'"),
                ("", "systemctl stop taken".to_owned()),
                same("systemctl restart leafd"),
            ],
            well: "curl --silent --fail http://127.0.0.1:9644/readyz",
        },
        Trouble {
            name: "the configuration is bad",
            make: "cp /etc/leafd/leafd.toml /root/good.toml
                echo 'autonmy = \"5m\"' >>/etc/leafd/leafd.toml
                systemctl restart leafd || true"
                .to_owned(),
            first: "systemctl status --lines=50 --no-pager leafd || true".to_owned(),
            says: "did you mean autonomy?",
            page: "docs/operate/troubles.md#the-service-does-not-start",
            alert: "LeafdAbsent",
            panel: ("Ids issued", |_| true),
            cure: vec![
                (
                    "leafd check-config --config /etc/leafd/leafd.toml",
                    "leafd check-config --config /etc/leafd/leafd.toml || true".to_owned(),
                ),
                ("", "cp /root/good.toml /etc/leafd/leafd.toml".to_owned()),
                same("systemctl start leafd"),
            ],
            well: orders,
        },
        Trouble {
            name: "the clock is off",
            make: "echo +30 >/etc/leafd/clock".to_owned(),
            first: status(DRAW_SNOWFLAKE),
            says: "clock off",
            page: "docs/operate/troubles.md#clock_off",
            alert: "LeafdClockOff",
            panel: ("Clocks", |offset| (20.0..40.0).contains(&offset)),
            cure: vec![same("chronyc makestep")],
            well: snowflake,
        },
        Trouble {
            name: "the certificate has expired",
            make: format!(
                "cp /etc/tls/expired.pem /etc/tls/server.pem\nsystemctl reload postgresql\n{NEW_LOGIN}"
            ),
            first: status(DRAW),
            says: "invalid peer certificate: Expired",
            page: "docs/operate/troubles.md#store_away",
            alert: "LeafdStoreAway",
            panel: ("Stores that accept claims", none),
            cure: vec![
                ("", "cp /etc/tls/good.pem /etc/tls/server.pem".to_owned()),
                same("systemctl reload postgresql"),
            ],
            well: orders,
        },
        Trouble {
            name: "the pool of workers is exhausted",
            make: "leafctl worker release
                install -m 600 /etc/credstore/leafd.store_password /root/password
                systemd-run --quiet --unit=other leafd --store \
                    'postgres://leafd@localhost/ids?sslrootcert=/etc/leafd/ca.pem' --state-dir /var/lib/other \
                    --socket /run/other.sock --set identity=host-2 --set worker_range=0..1 --set lease=20s \
                    --set store_password_file=/root/password
                leafctl --socket /run/other.sock wait answering
                until leafctl --socket /run/other.sock next snowflake; do sleep 0.2; done"
                .to_owned(),
            first: status(DRAW_SNOWFLAKE),
            says: "workers taken",
            page: "docs/operate/troubles.md#workers_taken",
            alert: "LeafdNoWorker",
            panel: ("Requests", |_| true),
            cure: vec![
                same("leafctl worker list"),
                (
                    "leafctl worker release",
                    "leafctl --socket /run/other.sock worker release".to_owned(),
                ),
            ],
            well: snowflake,
        },
        Trouble {
            name: "a tag is exhausted",
            make: "leafctl tag create small --ceiling 3 --step 3\nleafctl next small -n 3".to_owned(),
            first: status("leafctl next small --deadline-ms 300 2>&1 || true\n"),
            says: "TAG_EXHAUSTED",
            page: "docs/operate/troubles.md#tag_used_up",
            alert: "LeafdTagUsedUp",
            panel: ("Ceiling used", |used| used >= 1.0),
            cure: vec![(
                "leafctl tag set TAG --ceiling N",
                "leafctl tag set small --ceiling 2147483647".to_owned(),
            )],
            well: "leafctl next small",
        },
    ]
}

/// A host with the package, a database and a Prometheus.
struct Site {
    machine: Machine,
    dashboard: Value,
}

impl Site {
    fn new() -> Site {
        let machine = Machine::boot_with(Network::Own, &["postgresql.service"]);
        machine.ok(CERTIFICATES);
        machine.ok(DATABASE);
        machine.write("/etc/leafd/leafd.toml", LEAFD);
        machine.ok("install -d -m 700 /etc/credstore");
        machine.write("/etc/credstore/leafd.store_password", "password-of-leafd");
        // A disk that can be filled.
        machine.ok("install -d /var/lib/leafd; mount -t tmpfs -o size=4m tmpfs /var/lib/leafd");
        machine.ok(CLOCK);
        machine.write("/etc/dpkg/dpkg.cfg.d/leafd-test", "force-confold\nno-triggers\n");
        machine.install(&packages().first);
        let url = "postgres://owner@localhost/ids?sslrootcert=/etc/leafd/ca.pem";
        machine.ok(&format!(
            "LEAFD_STORE_PASSWORD=password-of-owner leafd schema apply --store '{url}'"
        ));
        let guide = machine.ok(&format!("cat {DOCUMENTS}guide/many-hosts.md"));
        let (_, privileges) = guide.split_once("## Privileges").expect("the guide's privileges");
        let (_, privileges) = privileges.split_once("```sql\n").expect("statements");
        let privileges = privileges.split_once("```").expect("their end").0;
        machine.ok(&format!("runuser -u postgres -- psql --quiet ids <<'END'\n{privileges}END"));
        machine.ok(PROMETHEUS);
        machine.ok("leafctl tag create orders");
        let dashboard = machine.ok("cat /usr/share/doc/leafd/examples/dashboard.json");
        let site = Site { machine, dashboard: serde_json::from_str(&dashboard).unwrap() };
        site.is_well("leafctl next orders && leafctl next snowflake");
        site
    }

    /// The numbers that a Prometheus query returns.
    fn numbers(&self, query: &str) -> Vec<f64> {
        let quoted = query.replace('\'', r"'\''");
        let ask = format!("promtool query instant -o json http://127.0.0.1:9099 '{quoted}'");
        let output = self.machine.run(&ask);
        let found: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        let values = found.as_array().into_iter().flatten();
        values.filter_map(|one| one["value"][1].as_str()?.parse().ok()).collect()
    }

    /// The queries of a panel.
    fn queries(&self, title: &str) -> Vec<String> {
        let mut panels = self.dashboard["panels"].as_array().unwrap().iter();
        let panel = panels.find(|panel| panel["title"] == title).expect("a panel of this title");
        let targets = panel["targets"].as_array().unwrap().iter();
        let query = |target: &Value| {
            let query = target["expr"].as_str().unwrap().replace("$__rate_interval", "1m");
            query.replace("$instance", ".*").replace("$tag", ".*")
        };
        targets.map(query).collect()
    }

    /// The section that a link leads to, and the pages that it links to.
    #[track_caller]
    fn page(&self, link: &str) -> String {
        let (path, anchor) = link.split_once('#').expect("a section");
        let path = path.strip_prefix("docs/").expect("a path below docs");
        let page = self.machine.ok(&format!("cat {DOCUMENTS}{path}"));
        let is_it = |line: &str| {
            let title = line.trim_start_matches("## ").replace(['`', ','], "");
            line.starts_with("## ") && title.to_lowercase().replace(' ', "-") == anchor
        };
        let mut lines = page.lines().skip_while(|line| !is_it(line));
        let heading = lines.next().unwrap_or_else(|| panic!("{path} has no section {anchor}"));
        let section: Vec<&str> = lines.take_while(|line| !line.starts_with("## ")).collect();
        let mut text = format!("{heading}\n{}\n", section.join("\n"));
        let links: Vec<&str> = section.iter().flat_map(|line| line.split("](").skip(1)).collect();
        for link in links.iter().filter_map(|rest| rest.split(')').next()) {
            let file = link.split('#').next().unwrap();
            if file.ends_with(".md") {
                text += &self.machine.ok(&format!("cat {DOCUMENTS}operate/{file}"));
            }
        }
        text
    }

    /// Waits until the daemon reports no problem, and serves this.
    #[track_caller]
    fn is_well(&self, serves: &str) {
        let begun = Instant::now();
        loop {
            let output = self.machine.run(&format!("{serves}\nleafctl status"));
            let said = text(&output.stdout) + &text(&output.stderr);
            if output.status.success() && said.lines().any(|line| line.starts_with("OK: ")) {
                return;
            }
            assert!(begun.elapsed() < WITHIN, "{said}\n{}", self.machine.log());
            std::thread::sleep(Duration::from_millis(200));
        }
    }

    /// Goes from the problem to a healthy daemon.
    #[track_caller]
    fn walk(&self, trouble: &Trouble) {
        let Trouble { name, make, first, says, page, alert, panel, cure, well } = trouble;
        self.machine.ok(make);
        // The message names the page, or the package's installed copy of it.
        let named = [(*page).to_owned(), page.replacen("docs/", "/usr/share/doc/leafd/", 1)];
        let mut said = String::new();
        let begun = Instant::now();
        while !(said.contains(says) && named.iter().any(|link| said.contains(link.as_str()))) {
            assert!(begun.elapsed() < WITHIN, "{name}: {said}\n{}", self.machine.log());
            std::thread::sleep(Duration::from_millis(200));
            said = text(self.machine.run(first).stdout);
        }
        eventually(&format!("{name}: the alert {alert}"), WITHIN, || {
            self.machine.run(first);
            let is_raised = format!("ALERTS{{alertname=\"{alert}\"}}");
            (!self.numbers(&is_raised).is_empty()).then_some(())
        });
        let (title, shows) = panel;
        let queries = self.queries(title);
        eventually(&format!("{name}: the panel {title}"), WITHIN, || {
            self.machine.run(first);
            let mut numbers = queries.iter().flat_map(|query| self.numbers(query));
            numbers.any(|number| !number.is_nan() && shows(number)).then_some(())
        });
        let page = self.page(page);
        assert!((1..=COMMANDS_MAX).contains(&cure.len()), "{name}: {} commands", cure.len());
        for (printed, command) in cure {
            let is_printed = page.contains(&format!("`{printed}`"))
                || page.lines().any(|line| line.trim() == *printed);
            assert!(is_printed || printed.is_empty(), "{name}: no {printed:?} in {page}");
            println!("{name}: {command}\n{}", self.machine.ok(command));
        }
        self.is_well(well);
        println!("{name}: well after {} commands", cure.len());
    }
}

#[test]
fn each_trouble_leads_to_its_page_and_the_page_cures_it() {
    let site = Site::new();
    for trouble in troubles() {
        site.walk(&trouble);
    }
}
