//! HTTP on a socket that systemd listens on and passes to the daemon, as the documents describe.

use crate::host::eventually;
use crate::machine::{Machine, WITHIN};

/// Makes bash request a path over TCP, inside the machine.
fn get(machine: &Machine, path: &str) -> String {
    let ask =
        format!("GET {path} HTTP/1.1\\r\\nHost: localhost\\r\\nConnection: close\\r\\n\\r\\n");
    machine
        .ok(&format!("bash -euc 'exec 3<>/dev/tcp/127.0.0.1/9644; printf \"{ask}\" >&3; cat <&3'"))
}

#[test]
fn a_taken_port_keeps_only_http_down() {
    let machine = Machine::with_leafd();
    machine.ok("systemd-run --quiet --unit=taken python3 -c '
import socket, time
taken = socket.create_server((\"127.0.0.1\", 9644))
time.sleep(600)'");
    eventually("the port is taken", WITHIN, || {
        let asked = machine.run("bash -c 'exec 3<>/dev/tcp/127.0.0.1/9644'");
        asked.status.success().then_some(())
    });
    machine.ok("install -D -m 644 /usr/share/doc/leafd/examples/http.conf /etc/systemd/system/leafd.service.d/http.conf
        systemctl daemon-reload
        systemctl enable leafd-http.socket
        systemctl restart leafd");
    assert_eq!(machine.ok("leafctl next orders"), "1\n");
    assert_eq!(machine.unit("ActiveState"), "active");
    // Once the port is free again, a restart serves HTTP.
    machine.ok("systemctl stop taken; systemctl restart leafd");
    assert!(get(&machine, "/livez").ends_with("\r\n\r\nok\n"));
}

#[test]
fn http_is_served_on_a_socket_that_systemd_hands_over() {
    let machine = Machine::with_leafd();
    machine.ok("install -D -m 644 /usr/share/doc/leafd/examples/http.conf /etc/systemd/system/leafd.service.d/http.conf
        systemctl daemon-reload
        systemctl enable leafd-http.socket
        systemctl restart leafd");
    assert_eq!(machine.ok("leafctl next orders -n 2 | wc -l"), "2\n");
    let ready = get(&machine, "/readyz");
    assert!(
        ready.starts_with("HTTP/1.1 200 ") && ready.contains("segments: ids are available"),
        "{ready}"
    );
    let metrics = get(&machine, "/metrics");
    assert!(metrics.contains("\nleafd_segment_ids_issued_total 2\n"), "{metrics}");
    assert!(get(&machine, "/").contains("<title>leafd</title>"));

    // The socket outlives the daemon, and starts it.
    machine.ok("systemctl stop leafd.service");
    assert!(get(&machine, "/livez").ends_with("\r\n\r\nok\n"));
    eventually("the daemon is ready", WITHIN, || {
        (machine.unit("ActiveState") == "active").then_some(())
    });

    // If the daemon may not use the network at all, systemd still can.
    machine.ok("install -m 644 /usr/share/doc/leafd/examples/sqlite.conf /etc/systemd/system/leafd.service.d/sqlite.conf
        systemctl daemon-reload
        systemctl restart leafd");
    assert_eq!(machine.unit("PrivateNetwork"), "yes");
    assert!(get(&machine, "/livez").ends_with("\r\n\r\nok\n"));

    // On a Unix socket, the daemon knows its client's user.
    machine.write(
        "/etc/systemd/system/leafd-http.socket.d/unix.conf",
        "[Socket]\nListenStream=\nListenStream=/run/leafd/http.sock\nSocketMode=0666\n",
    );
    machine.ok("systemctl daemon-reload
        systemctl stop leafd.service leafd-http.socket
        systemctl start leafd-http.socket
        systemctl start leafd.service");
    let state = |user: u32| {
        machine.ok(&format!(
            "setpriv --reuid={user} --regid={user} --clear-groups python3 -c '
import socket
asks = socket.socket(socket.AF_UNIX)
asks.settimeout(60)
asks.connect(\"/run/leafd/http.sock\")
asks.sendall(b\"GET /state HTTP/1.0\\r\\nHost: localhost\\r\\n\\r\\n\")
said = b\"\"
while more := asks.recv(65536):
    said += more
print(said.decode())
'"
        ))
    };
    let (administrators, others) = (state(0), state(65_534));
    assert!(
        administrators.contains("\"administers\":true") && administrators.contains("\"users\":"),
        "{administrators}"
    );
    assert!(others.contains("\"administers\":false") && !others.contains("\"users\":"), "{others}");
}
