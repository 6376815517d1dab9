//! A store on a server: the password is a credential, and an unavailable store doesn't delay the start.

use crate::host::eventually;
use crate::machine::{Machine, Network, WITHIN};
use crate::package::packages;
use crate::servers::{PASSWORD, Postgres, Server as _};

#[test]
fn the_password_is_a_credential_and_a_store_that_is_away_holds_nothing_up() {
    let mut server = Postgres::new();
    // The name must be resolved even in the sandbox.
    let url = server.url().replace("127.0.0.1", "localhost");
    let machine = Machine::boot(Network::Ours);
    machine.write("/etc/leafd/leafd.toml", &format!("store = \"{url}\"\n"));
    machine.write("/etc/credstore/leafd.store_password", PASSWORD);
    machine.ok("chmod 700 /etc/credstore");
    // The administrator's configuration exists before the package is installed, and is kept.
    machine.ok(&format!(
        "dpkg --no-triggers --force-confold --install /leafd-packages/{}",
        packages().first
    ));
    assert_eq!(machine.unit("StatusText"), "OK: segment and snowflake ids available");
    machine.ok("leafctl tag create orders");
    assert_eq!(machine.ok("leafctl next orders -n 2"), "1\n2\n");
    let pid = machine.unit("MainPID");
    let seen = machine.ok(&format!("cat /proc/{pid}/environ /proc/{pid}/cmdline | tr '\\0' '\\n'"));
    assert!(!seen.contains(PASSWORD) && !machine.log().contains(PASSWORD));
    machine.fails(&format!(
        "setpriv --reuid=4711 cat /proc/{pid}/root/run/credentials/leafd.service/store_password"
    ));

    // It starts, reports what is wrong, and continues with its held ids. Later it works normally again.
    server.process_mut().kill();
    machine.ok("systemctl restart leafd");
    let text = machine.unit("StatusText");
    assert!(text.starts_with("DOWN: segment and snowflake ids unavailable: "), "{text}");
    assert_eq!(machine.ok("leafctl next orders"), "3\n");
    server.start();
    eventually("the store is back", WITHIN, || {
        machine.unit("StatusText").starts_with("OK: segment and").then_some(())
    });
}
