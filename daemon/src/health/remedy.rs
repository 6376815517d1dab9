//! What to do about each cause on this host. A remedy names, for instance, the file of the password, the certificate
//! that counts, or the command that helps.

use std::collections::BTreeMap;

use crate::config::{Config, StorePassword, StoreSpec, StoreUrl, password_variable};
use crate::store::sql::NOT_LEAFD_S;
use leafd_core::health::{Cause, Code};
use leafd_core::lease::REGISTRY_BEHIND;
use leafd_core::store::{ANOTHER_DATABASE, RECORDED_ROUTES, StoreError};
use leafd_core::upstream::SILENT;

/// What the configuration says about things that may need repair.
#[derive(Debug, Default)]
pub struct Remedies {
    stores: BTreeMap<String, Origins>,
    state_dir: String,
}

/// Where a store's password and certificates come from.
#[derive(Debug)]
struct Origins {
    embedded: bool,
    password: String,
    authority: String,
}

/// A database's words for a login that it refuses.
const LOGIN: [&str; 6] = [
    "28P01",
    "28000",
    "password authentication failed",
    "Access denied for user",
    "password file",
    "no password",
];

/// Words of errors about certificates.
const CERTIFICATE: [&str; 5] =
    ["certificate", "UnknownIssuer", "TLS", "handshake", "root certificates"];

/// Words of errors about missing rights.
const RIGHTS: [&str; 6] =
    ["permission denied", "42501", "command denied", "1142", "1143", "rights"];

/// A database's words for a lost right to record claims: PostgreSQL's, MariaDB's and MySQL's.
const DENIED_RECORDS: [&str; 3] =
    ["for table leafd_claim", "`leafd_claim`", "for table 'leafd_claim'"];

/// Words of the error about a table that is missing, or that MariaDB shows to nobody without rights on it.
const HIDDEN: [&str; 1] = ["or hides it from user"];

/// Words of errors about missing tables.
const TABLES: [&str; 2] = ["no such table", "schema apply"];

/// Words of errors of a server that refuses a statement, although it has all that leafd needs.
const REFUSED: [&str; 1] = ["refuses it"];

/// Words of errors of a server that takes no writes.
const READ_ONLY: [&str; 3] = ["read-only", "read only", "standby"];

/// Words of errors about an embedded store that another process has locked.
const LOCKED: [&str; 2] = ["locked", "busy"];

/// A new database doesn't know the ids that the former one gave. So to adopt it is no quick remedy.
const PUT_BACK: &str = "put the first database back; leafd goes on by itself. Only if the change is meant: stop leafd on \
     all hosts, raise the tags in the new one, and run leafd adopt-store on each host (docs/operate/another-database.md)";

/// An embedded registry has the host's clock.
const CLOCK: &str = "see that the host's clock is right and kept so (timedatectl, chronyc tracking); ids follow by themselves";
const CLOCK_OF_REGISTRY: &str = "see that the clock of the registry's server is right and kept so (timedatectl, chronyc \
     tracking); ids follow by themselves";

fn is_zookeeper(cause: &Cause) -> bool {
    cause.subject.starts_with("zookeeper:")
}

impl Remedies {
    /// The remedies for this configuration.
    #[must_use]
    pub fn of_config(config: &Config) -> Remedies {
        let stores = config.routing.stores().iter().map(|spec| (subject(spec), Origins::of(spec)));
        let state_dir = config.state_dir.display().to_string();
        Remedies { stores: stores.collect(), state_dir }
    }

    /// What to do about a cause.
    #[must_use]
    pub fn of(&self, cause: &Cause) -> String {
        let of_store = || self.of_store(&cause.subject, &cause.message);
        match cause.code {
            Code::JournalFailing => format!(
                "see to the state directory {} (free space, mode and owner, the kernel's log); leafd goes on by itself once \
                 its disk works, and needs no restart",
                self.state_dir
            ),
            Code::StoreAway | Code::StoreRefused | Code::ClaimsFailing => of_store(),
            Code::RegistryAway | Code::WorkerRefused => self.of_registry(cause),
            Code::StoreSettling | Code::StoreCrowded | Code::RegistrySettling => {
                "wait: it ends by itself".to_owned()
            }
            Code::TagClaimsFailing => format!(
                "look at the tag's row: leafctl tag show {:?}; leafd tries again by itself",
                &*cause.subject
            ),
            Code::TagUsedUp | Code::TagNearCeiling => format!(
                "raise its ceiling with: leafctl tag set {:?} --ceiling N, or move to a new tag",
                &*cause.subject
            ),
            Code::WorkerStarting | Code::WorkerReleased => String::new(),
            Code::RegistryReplaced if is_zookeeper(cause) => {
                "put the first ensemble back. Only if the change is meant: start leafd once with --worker none, and then \
                 as before"
                    .to_owned()
            }
            Code::RegistryReplaced => PUT_BACK.to_owned(),
            Code::WorkersTaken => {
                "see who has them with: leafctl worker list; free one that no host uses with: leafctl worker release \
                 --worker N; or widen worker_range and the layouts' worker bits"
                    .to_owned()
            }
            Code::WorkerShared => {
                "stop one of the two, give it a number of its own (worker = \"static:N\") and start it again; ids that both \
                 have issued meanwhile may be equal"
                    .to_owned()
            }
            Code::WorkerLost => "wait: another one is being leased".to_owned(),
            Code::IdentityInUse => {
                "give each daemon an identity of its own, or stop the other one".to_owned()
            }
            Code::ClockOff | Code::ClockBehind => CLOCK.to_owned(),
            Code::LayoutUsedUp => {
                "set the host's clock if it is wrong, or move to a new layout".to_owned()
            }
            Code::LayoutContradicted => {
                "only leafd may write to the state directory: stop whatever else does, and restart leafd if this stays"
                    .to_owned()
            }
        }
    }

    /// What to do about a store's error that was found by another program than the daemon.
    #[must_use]
    pub fn of_store_error(&self, spec: &StoreSpec, error: &StoreError) -> String {
        self.of_store(&subject(spec), &error.to_string())
    }

    /// The authority against which a store's certificate is checked.
    #[must_use]
    pub fn authority_of(&self, spec: &StoreSpec) -> String {
        self.stores.get(&subject(spec)).map_or(String::new(), |origins| origins.authority.clone())
    }

    /// A registry in a store has the remedies of that store.
    fn of_registry(&self, cause: &Cause) -> String {
        if cause.message.contains(REGISTRY_BEHIND) {
            let embedded = self.stores.get(&*cause.subject).is_some_and(|origins| origins.embedded);
            return if embedded { CLOCK } else { CLOCK_OF_REGISTRY }.to_owned();
        }
        if &*cause.subject == "static" {
            return "see that no second daemon of this host uses the number, then start leafd again"
                .to_owned();
        }
        if is_zookeeper(cause) && cause.code == Code::WorkerRefused {
            return "ZooKeeper answered and refused: mend what the message names; leafd tries again by itself"
                .to_owned();
        }
        if is_zookeeper(cause) {
            return "see that ZooKeeper has a quorum and that this host reaches it; leafd tries again by itself"
                .to_owned();
        }
        self.of_store(&cause.subject, &cause.message)
    }

    fn of_store(&self, store: &str, message: &str) -> String {
        let says = |words: &[&str]| words.iter().any(|word| message.contains(word));
        let origins = self.stores.get(store);
        let itself = "leafd tries again by itself and needs no restart";
        if says(&[ANOTHER_DATABASE]) {
            return PUT_BACK.to_owned();
        }
        if says(&[&format!("no {RECORDED_ROUTES}")]) {
            return "check that this host's routes send the store's tags to it, and record them with: leafd routes apply"
                .to_owned();
        }
        if says(&[RECORDED_ROUTES]) {
            return "give this host the routes of the others and restart leafd, or record new ones with: leafd routes apply \
                    (docs/operate/several-stores.md)"
                .to_owned();
        }
        if let Some(origins) = origins.filter(|origins| !origins.embedded) {
            if says(&CERTIFICATE) {
                return format!(
                    "the server's certificate is checked against {}: put right whichever of the two is wrong; {itself}",
                    origins.authority
                );
            }
            if says(&LOGIN) {
                return format!("leafd logs in with {}", origins.password);
            }
        }
        if says(&REFUSED) {
            return format!(
                "the database answers: mend what the message names. If leafd's tables are sound, a trigger or rule on one of \
                 them is not; {itself}"
            );
        }
        if says(&HIDDEN) {
            return format!(
                "make the table with: leafd schema apply; if it is there, give leafd's user back its rights on it \
                 (docs/guide/many-hosts.md lists them); {itself}"
            );
        }
        if says(&RIGHTS) && DENIED_RECORDS.iter().any(|words| message.contains(words)) {
            return format!(
                "claims can't be recorded: grant leafd's user SELECT, INSERT and DELETE on leafd_claim; {itself}. With \
                 SELECT alone it can claim without records, once it is restarted with claims_kept = \"0s\""
            );
        }
        if says(&RIGHTS) {
            return format!(
                "give leafd's user back its rights on the tables (docs/guide/many-hosts.md lists them); {itself}"
            );
        }
        if says(&[NOT_LEAFD_S]) {
            return format!("put the value that the message names back, from a backup; {itself}");
        }
        if says(&TABLES) {
            return format!("restore the tables, or make them with: leafd schema apply; {itself}");
        }
        if says(&READ_ONLY) {
            return format!(
                "let it take writes again, or name the server in the URL that does; {itself}"
            );
        }
        if says(&LOCKED) && origins.is_some_and(|origins| origins.embedded) {
            return format!("end the other program that has the store's file open; {itself}");
        }
        if says(&[SILENT]) && origins.is_some_and(|origins| origins.embedded) {
            return format!(
                "see to the disk that the store's file is on (its mount, the kernel's log); {itself}"
            );
        }
        format!("see that the database serves, and that this host reaches it; {itself}")
    }
}

/// The name of a store in causes.
fn subject(spec: &StoreSpec) -> String {
    if spec.name.is_empty() { spec.url.to_string() } else { spec.name.to_string() }
}

impl Origins {
    fn of(spec: &StoreSpec) -> Origins {
        let (embedded, tls) = match &spec.url {
            StoreUrl::Sqlite(_) => (true, None),
            StoreUrl::Postgres(url) | StoreUrl::Mysql(url) => (false, url.tls.as_ref()),
        };
        let roots = tls.and_then(|tls| tls.root_certificates.as_ref());
        let authority = match roots {
            Some(file) => format!("the authority in {} (sslrootcert)", file.display()),
            None => "the authorities that the system trusts (sslrootcert names another)".to_owned(),
        };
        let password = match &spec.password {
            StorePassword::None => format!(
                "no password: name a file with store_password_file, or set {} and start leafd again",
                password_variable(&spec.name)
            ),
            StorePassword::File(path) => format!(
                "the password in {}, read at each connection: put the right one there; no restart is needed",
                path.display()
            ),
            StorePassword::Variable(_) => format!(
                "the password in the variable {}: set the right one and start leafd again, or keep it in a file \
                 (store_password_file), which needs no restart",
                password_variable(&spec.name)
            ),
        };
        Origins { embedded, password, authority }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Args, Env};
    use leafd_core::health::{Kind, Lasts};

    fn remedy(settings: &[&str], code: Code, message: &str) -> String {
        let set = settings.iter().map(|text| (*text).to_owned()).collect();
        let config = Config::load_from(&Args { set, ..Args::default() }, &Env::default()).unwrap();
        let store = config.routing.stores()[0].url.to_string();
        Remedies::of_config(&config).of(&cause(code, &store, message))
    }

    fn cause(code: Code, subject: &str, message: &str) -> Cause {
        Cause {
            code,
            subject: subject.into(),
            kind: Kind::Segments,
            message: message.to_owned(),
            remedy: String::new(),
            since: None,
            last_success: None,
            lasts: Lasts::Over,
            idle: false,
        }
    }

    #[test]
    fn another_database_is_put_back_or_adopted_on_all_hosts_at_once() {
        let message =
            format!("the store postgres://leafd@db/ids {ANOTHER_DATABASE} the one in use");
        let url = "store=postgres://leafd@db/ids";
        for (code, message) in [
            (Code::StoreRefused, &*message),
            (Code::WorkerRefused, &*message),
            (
                Code::RegistryReplaced,
                "the worker registry is now b, but this host's lease is from a",
            ),
        ] {
            let text = remedy(&[url], code, message);
            assert!(text.starts_with("put the first database back"), "{text}");
            assert!(text.contains("stop leafd on all hosts, raise the tags"), "{text}");
            assert!(!text.contains("serves"), "{text}");
        }
    }

    #[test]
    fn a_store_in_another_place_is_about_routes() {
        let url = "store=postgres://leafd@db/ids";
        let elsewhere = format!("its {RECORDED_ROUTES} are \"a\", and this host's say \"b\"");
        let text = remedy(&[url], Code::StoreRefused, &elsewhere);
        assert!(text.contains("the routes of the others and restart leafd"), "{text}");
        let unplaced = format!("it has or had tags, but no {RECORDED_ROUTES}");
        let text = remedy(&[url], Code::StoreRefused, &unplaced);
        assert!(text.contains("record them with: leafd routes apply"), "{text}");
    }

    #[test]
    fn a_clock_that_is_behind_is_set_where_it_is() {
        let text = remedy(&["store=sqlite:/x"], Code::WorkerRefused, REGISTRY_BEHIND);
        assert!(text.contains("the host's clock"), "{text}");
        let url = "store=postgres://leafd@db/ids";
        let text = remedy(&[url], Code::WorkerRefused, REGISTRY_BEHIND);
        assert!(text.contains("the registry's server"), "{text}");
    }

    #[test]
    fn zookeeper_is_mended_by_what_is_wrong_with_it() {
        let of = |code| Remedies::default().of(&cause(code, "zookeeper:zk1:2181", "why"));
        assert!(of(Code::RegistryAway).contains("quorum"));
        assert!(of(Code::WorkerRefused).contains("mend what the message names"));
        assert!(of(Code::RegistryReplaced).contains("--worker none"));
    }

    #[test]
    fn workers_are_freed_with_a_command_as_it_is() {
        let text = Remedies::default().of(&cause(Code::WorkersTaken, "", "all are taken"));
        assert!(text.contains("leafctl worker release --worker N;"), "{text}");
    }

    #[test]
    fn a_login_that_is_refused_leads_to_where_the_password_is_read_from() {
        let url = "store=postgres://leafd@db/ids";
        let refused = "password authentication failed for user \"leafd\" (SQLSTATE 28P01)";
        let text = remedy(&[url, "store_password_file=/etc/pw"], Code::StoreAway, refused);
        assert!(text.contains("in /etc/pw, read at each connection"), "{text}");
        let text = remedy(&[url], Code::StoreAway, refused);
        assert!(text.contains("no password") && text.contains("LEAFD_STORE_PASSWORD"), "{text}");
    }

    #[test]
    fn a_certificate_that_is_refused_leads_to_the_authority() {
        let refused = "invalid peer certificate: UnknownIssuer";
        let url = "store=postgres://leafd@db/ids?sslrootcert=/etc/ca.pem";
        let text = remedy(&[url], Code::StoreAway, refused);
        assert!(text.contains("the authority in /etc/ca.pem"), "{text}");
        let text =
            remedy(&["store=mysql://leafd@db/ids?sslmode=verify-full"], Code::StoreAway, refused);
        assert!(text.contains("the system trusts"), "{text}");
    }

    #[test]
    fn rights_tables_triggers_and_locks_have_remedies_of_their_own() {
        let url = "store=mysql://leafd@db/ids";
        for (message, expected) in [
            ("UPDATE command denied to user 'leafd'@'%' (1142)", "rights"),
            (
                "INSERT command denied to user 'leafd'@'%' for table `ids`.`leafd_claim` (error 1142)",
                "DELETE on leafd_claim",
            ),
            ("permission denied for table leafd_claim (SQLSTATE 42501)", "DELETE on leafd_claim"),
            (
                "lacks leafd_claim, or hides it from user \"leafd\"; create it with: x",
                "back its rights on it",
            ),
            (
                "lacks a table or column: x; create what is missing with: leafd schema apply",
                "make them",
            ),
            ("refuses it: Table 'ids.audit' doesn't exist (error 1146)", "trigger"),
            ("has a value of \"role\" in leafd_meta that leafd did not write", "backup"),
            ("it is read-only", "take writes"),
            ("connection refused", "serves"),
        ] {
            let text = remedy(&[url], Code::ClaimsFailing, message);
            assert!(text.contains(expected), "{message}: {text}");
        }
        let locked = "the store sqlite:/x can't be used: database is locked";
        let text = remedy(&["store=sqlite:/x"], Code::StoreAway, locked);
        assert!(text.contains("other program"), "{text}");
    }
}
