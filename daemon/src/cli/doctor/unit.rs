//! Checks the systemd unit: its state, and whether its sandbox lets leafd write.

use std::path::{Path, PathBuf};

use leafd_checkup::Report;

use crate::cli::service::{self, UNIT};
use crate::config::Config;

/// The properties to ask for.
const PROPERTIES: [&str; 6] = [
    "ActiveState",
    "Result",
    "NeedDaemonReload",
    "ProtectSystem",
    "StateDirectory",
    "ReadWritePaths",
];

/// Queries systemd, if it manages this machine.
pub fn check(report: &mut Report, config: &Config) {
    let said = match service::properties(&PROPERTIES) {
        Ok(Some(said)) => said,
        Ok(None) => return,
        Err(words) => {
            let remedy = "check that systemctl works";
            return report.warning("unit", format!("can't query {UNIT}: {words}"), remedy);
        }
    };
    let value = |name: &str| said.get(name).map_or("", String::as_str);
    if value("NeedDaemonReload") == "yes" {
        let text = format!("{UNIT} has changed on disk since systemd read it");
        report.warning("unit", text, "run systemctl daemon-reload, then systemctl restart leafd");
    }
    let state = value("ActiveState");
    match state {
        "failed" => {
            let remedy = "systemctl status leafd shows why; fix it, then run systemctl restart leafd";
            report.failed("unit", format!("{UNIT} has failed ({})", value("Result")), remedy);
        }
        "inactive" => report.warning(
            "unit",
            format!("{UNIT} is inactive"),
            "run systemctl start leafd; with leafd.socket, the next client starts it (systemctl stop leafd.socket \
             leafd stops both)",
        ),
        _ => report.ok("unit", format!("{UNIT} is {state}")),
    }
    let sandbox = ["ProtectSystem", "StateDirectory", "ReadWritePaths"].map(value);
    check_writable(report, config, sandbox);
}

/// A directory outside the defaults must be allowed in the sandbox.
fn check_writable(report: &mut Report, config: &Config, sandbox: [&str; 3]) {
    let [protect, state, paths] = sandbox;
    let state = state.split_whitespace().map(|name| Path::new("/var/lib").join(name));
    let others =
        paths.split_whitespace().map(|path| PathBuf::from(path.trim_start_matches(['-', '+'])));
    let may_write = state.chain(others).any(|allowed| config.state_dir.starts_with(&allowed));
    if protect == "strict" && !may_write {
        let dir = config.state_dir.display();
        report.failed(
            "sandbox",
            format!("{UNIT} can't write to the state directory {dir}"),
            format!(
                "run systemctl edit leafd and add ReadWritePaths={dir}; or run the doctor with the unit's --config"
            ),
        );
    }
}
