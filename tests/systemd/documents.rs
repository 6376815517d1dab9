//! The commands on the guide's and the operator's pages, run as printed on a host with the package and a PostgreSQL.
//! Pages whose commands need something else have other tests: stores, languages, Kubernetes.

use crate::host::eventually;
use crate::machine::{Machine, Network, PACKAGES, WITHIN};
use crate::package::packages;
use crate::servers::{PASSWORD, Postgres, Server as _};

const SYSTEMD: &str = include_str!("../../docs/guide/systemd.md");
const SNOWFLAKE: &str = include_str!("../../docs/guide/snowflake.md");
const PUBLIC_IDS: &str = include_str!("../../docs/guide/public-ids.md");
const DOCTOR: &str = include_str!("../../docs/operate/doctor.md");
const METRICS: &str = include_str!("../../docs/operate/metrics.md");
const PASSWORD_PAGE: &str = include_str!("../../docs/operate/password.md");
const WHOSE: &str = include_str!("../../docs/operate/whose.md");
const FLEET: &str = include_str!("../../docs/operate/fleet.md");

/// The blocks of a page in this language.
fn blocks(page: &'static str, language: &str) -> Vec<&'static str> {
    let parts = page.split("```").skip(1).step_by(2);
    let parts = parts.filter_map(|part| part.split_once('\n'));
    parts.filter(|(of, _)| *of == language).map(|(_, text)| text).collect()
}

#[test]
fn the_commands_of_the_pages_do_what_they_say() {
    let server = Postgres::new();
    let machine = Machine::boot(Network::Ours);
    let package = format!("{PACKAGES}/{}", packages().first);
    let [by_hand, with_package, sandbox] = blocks(SYSTEMD, "sh")[..] else { panic!("{SYSTEMD}") };

    // Installs without the package, as root.
    machine.ok(&format!("dpkg-deb --extract {package} /opt/leafd"));
    let said = machine.ok(&format!("PATH=/opt/leafd/usr/bin:$PATH\n{by_hand}kill $!; wait"));
    assert!(said.contains("\n1\n2\n3\n"), "{said}");
    machine.ok("rm -r /var/lib/leafd /run/leafd /opt/leafd");

    let url = server.url().replace("127.0.0.1", "localhost");
    machine.write("/etc/leafd/leafd.toml", &format!("store = \"{url}\"\n"));
    machine.write("/etc/credstore/leafd.store_password", PASSWORD);
    // The configuration exists before the package is installed, and the triggers for manual pages take long.
    machine.write("/etc/dpkg/dpkg.cfg.d/leafd-test", "force-confold\nno-triggers\n");
    let with_package = with_package.replace("$(./systemd/debian/build)", &package);
    let said = machine.ok(&format!(
        "chmod 700 /etc/credstore; export USER=root; sudo() {{ \"$@\"; }}\n{with_package}"
    ));
    assert!(said.contains("ids available") && said.ends_with("\n1\n"), "{said}");

    let [layouts, ..] = blocks(SNOWFLAKE, "toml")[..] else { panic!("{SNOWFLAKE}") };
    let [draw] = blocks(SNOWFLAKE, "sh")[..] else { panic!("{SNOWFLAKE}") };
    let configure = |lines: &str| {
        format!("cat >>/etc/leafd/leafd.toml <<'END'\n{lines}END\nsystemctl restart leafd\n")
    };
    // A top-level key must come before any table.
    let [_, new_key, masked] = blocks(PUBLIC_IDS, "sh")[..] else { panic!("{PUBLIC_IDS}") };
    machine.ok(&format!(
        "{new_key}chown leafd /etc/leafd/mask_keys\n{}",
        configure("mask_key_file = \"/etc/leafd/mask_keys\"\n")
    ));
    let id = machine.ok(&format!("{masked}leafctl next tickets"));
    let id: u64 = id.lines().last().unwrap().parse().expect("a public id");
    assert!(id < 1 << 53, "{id}");
    let id = machine.ok(&format!("{}{draw}", configure(layouts)));
    assert!(id.trim_end().parse::<u64>().unwrap() < 1 << 53, "{id}");

    let [doctor] = blocks(DOCTOR, "sh")[..] else { panic!("{DOCTOR}") };
    let said = machine.ok(doctor);
    assert!(said.contains("\n0 failed"), "{said}");

    let [http, timer] = blocks(METRICS, "sh")[..] else { panic!("{METRICS}") };
    machine.ok(http);
    machine.ok("bash -c 'exec 3<>/dev/tcp/127.0.0.1/9644'");
    machine.ok(timer);
    machine.ok("systemctl is-active leafd-metrics.timer");

    let public = machine.ok("leafctl mask orders 1 --prefix ord");
    let [whose, gaps] = blocks(WHOSE, "sh")[..] else { panic!("{WHOSE}") };
    let said = machine.ok(&whose.replace("ord_16dsky4r4xzza8d", public.trim_end()));
    assert!(said.contains("orders 1 was claimed by "), "{said}");
    let said = machine.ok(gaps);
    assert!(said.contains("not claimed yet"), "{said}");

    let fleet = blocks(FLEET, "sh");
    let fleet = fleet.iter().find(|block| block.starts_with("leafctl ")).expect("leafctl fleet");
    let said = machine.ok(fleet);
    assert!(said.lines().any(|line| line.starts_with("active ")), "{said}");

    // Every login before the rotation uses the first password, and every later one the new password.
    let [rotate] = blocks(PASSWORD_PAGE, "sql")[..] else { panic!("{PASSWORD_PAGE}") };
    let [credential, file] = blocks(PASSWORD_PAGE, "sh")[..] else { panic!("{PASSWORD_PAGE}") };
    server.sql(rotate);
    machine.ok(&format!("{credential}leafctl ping --ready segments\n{doctor}"));
    // A top-level key must come before any table.
    server.set_password(PASSWORD);
    machine.ok(
        "sed -i '1i store_password_file = \"/etc/leafd/store_password\"' /etc/leafd/leafd.toml",
    );
    machine.write("/etc/leafd/store_password", PASSWORD);
    machine.ok("chown leafd /etc/leafd/store_password; chmod 600 /etc/leafd/store_password; systemctl restart leafd");
    let pid = machine.unit("MainPID");
    server.sql(rotate);
    Postgres::end_sessions(&mut server.connection().unwrap());
    machine.ok(&format!("{file}{doctor}"));
    eventually("a login with the new password", WITHIN, || {
        machine.run("leafctl tag list").status.success().then_some(())
    });
    assert_eq!(machine.unit("MainPID"), pid, "no restart is needed");

    // This comes last, because a host without a network has no database.
    machine.ok(sandbox);
    assert_eq!(machine.unit("PrivateNetwork"), "yes");
}
