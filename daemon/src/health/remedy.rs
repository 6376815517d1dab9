//! The remedy for each cause on this host: a `match` on its code and on the class of its reason. A remedy names, for
//! instance, the password file, the CA in use, or the command that helps.

use std::collections::BTreeMap;

use leafd_checkup::snapshot::store_subject;

use crate::config::{Config, StorePassword, StoreSpec, StoreUrl, password_variable};
use crate::engine::lease::ZOOKEEPER;
use leafd_core::health::{Cause, Code};
use leafd_core::store::{Why, ceiling_remedy};
use leafd_wire::text::shell_word;

/// The parts of the configuration that remedies name.
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

/// A new database doesn't know the ids that the former one granted, so adopting it is no quick remedy.
const PUT_BACK: &str = "restore the original database; leafd then continues. If the change is intended, stop leafd on \
     all hosts, raise the tags in the new one, and run leafd adopt-store on each host \
     (docs/operate/another-database.md)";

/// An embedded registry uses the host's clock.
const CLOCK: &str = "correct the host's clock and keep it synchronized (timedatectl, chronyc tracking); no restart is needed";
const CLOCK_OF_REGISTRY: &str = "correct the clock of the registry's server and keep it synchronized (timedatectl, chronyc \
     tracking); no restart is needed";

/// The end of each remedy in a running daemon.
const RETRIES: &str = "; leafd retries and needs no restart";

impl Remedies {
    /// The remedies for this configuration.
    pub fn of_config(config: &Config) -> Remedies {
        let stores = config.routing.stores().iter();
        let stores = stores.map(|spec| (store_subject(&spec.name).to_owned(), Origins::of(spec)));
        let state_dir = config.state_dir.display().to_string();
        Remedies { stores: stores.collect(), state_dir }
    }

    /// What to do about a cause.
    pub fn of(&self, cause: &Cause) -> String {
        let subject = &*cause.subject;
        let remedy = match cause.code {
            Code::JournalFailing => {
                return format!(
                    "check the state directory {} (free space, mode and owner, the kernel's log); leafd continues without a \
                     restart once its disk works",
                    self.state_dir
                );
            }
            Code::TagClaimsFailing if cause.why == Why::RowSetBack => {
                return self.of_store("", cause.why, RETRIES);
            }
            Code::StoreAway | Code::StoreRefused | Code::ClaimsFailing => {
                return self.of_store(subject, cause.why, RETRIES);
            }
            Code::RegistryAway | Code::WorkerRefused => return self.of_registry(cause),
            Code::StoreSettling | Code::RegistrySettling => "wait: it ends on its own",
            Code::TagClaimsFailing => {
                return format!(
                    "check the tag's row: leafctl tag show {}; leafd retries",
                    shell_word(subject)
                );
            }
            Code::TagUsedUp | Code::TagNearCeiling => return ceiling_remedy(subject),
            Code::WorkerStarting | Code::WorkerReleased => "",
            Code::RegistryReplaced if subject == ZOOKEEPER => {
                "restore the original ensemble. If the change is intended, start leafd once with --worker none, and \
                 then as before"
            }
            Code::RegistryReplaced => PUT_BACK,
            Code::WorkersTaken => {
                "list the holders with: leafctl worker list; release an unused number: leafctl worker release --worker \
                 N; or extend worker_range and the layouts' worker bits"
            }
            Code::WorkerShared => {
                "stop one of the two, give it its own number (worker = \"static:N\") and start it again; both may have issued \
                 the same ids"
            }
            Code::WorkerLost => "wait: another number is being leased",
            Code::IdentityInUse => "give each daemon its own identity, or stop the other one",
            Code::ClockOff | Code::ClockBehind => CLOCK,
            Code::LayoutUsedUp => "set the host's clock if it is wrong, or move to a new layout",
            Code::LayoutContradicted => {
                "stop any other program that writes to the state directory, and restart leafd if the problem persists"
            }
        };
        remedy.to_owned()
    }

    /// What to do about a store's error that another program than the daemon has found.
    pub fn of_error(&self, spec: &StoreSpec, why: Why) -> String {
        self.of_store(store_subject(&spec.name), why, "")
    }

    /// A registry in a store has the remedies of that store.
    fn of_registry(&self, cause: &Cause) -> String {
        let embedded = self.stores.get(&*cause.subject).is_some_and(|origins| origins.embedded);
        let remedy = match cause.why {
            Why::RegistryClock if embedded => CLOCK,
            Why::RegistryClock => CLOCK_OF_REGISTRY,
            _ if &*cause.subject == "static" => {
                "check that no other daemon on this host uses the number, then restart leafd"
            }
            _ if &*cause.subject == ZOOKEEPER && cause.code == Code::WorkerRefused => {
                "ZooKeeper answers but refuses the call: fix what the message names; leafd retries"
            }
            _ if &*cause.subject == ZOOKEEPER => {
                "check that ZooKeeper has a quorum and that this host can reach it; leafd retries"
            }
            why => return self.of_store(&cause.subject, why, RETRIES),
        };
        remedy.to_owned()
    }

    /// `then`: what follows.
    fn of_store(&self, store: &str, why: Why, then: &str) -> String {
        let origins = self.stores.get(store);
        let embedded = origins.is_some_and(|origins| origins.embedded);
        let remedy = match why {
            Why::AnotherDatabase => return PUT_BACK.to_owned(),
            Why::NoRoutes => {
                return "check that this host's routes send the store's tags to it, then record them with: leafd routes apply"
                    .to_owned();
            }
            Why::OtherRoutes => {
                return "configure the routes of the other hosts and restart leafd, or record new ones with: leafd routes \
                        apply (docs/operate/several-stores.md)"
                    .to_owned();
            }
            Why::Login => {
                let password = origins.map_or("its password", |origins| &*origins.password);
                return format!(
                    "leafd logs in with {password}; also check that its user is allowed to log in"
                );
            }
            Why::Certificate => {
                let authority = origins.map_or("the configured CA", |origins| &*origins.authority);
                return format!(
                    "the server's certificate is verified against {authority}: correct whichever of the two is \
                     wrong{then}"
                );
            }
            Why::NoTls => {
                "set up TLS on the server, or add sslmode=disable to the store's URL if nobody on the network path can read \
                 the password or change claims"
            }
            Why::ReadablePassword => {
                "set up TLS on the server and add sslmode=verify-full to the store's URL, or let the server use \
                 scram-sha-256; with sslmode=disable, the password is sent in clear text"
            }
            Why::UnknownDatabase => "create the database, or correct its name in the store's URL",
            Why::ReadOnly => {
                "make the server accept writes again, or put the server that accepts them into the URL"
            }
            Why::MissingPrivileges => {
                "grant leafd's user its privileges on the tables again (docs/guide/many-hosts.md lists them)"
            }
            Why::HiddenTables => {
                "create the table with: leafd schema apply; if it exists, grant leafd's user its privileges on it \
                 again (docs/guide/many-hosts.md lists them)"
            }
            Why::MissingTables => "restore the tables, or create them with: leafd schema apply",
            Why::ForeignValue => "restore the value that the message names from a backup",
            Why::RowSetBack => {
                "if it is the old tag, run: leafctl tag raise TAG --to END, with the values of the message. If \
                 leaf_alloc was restored, see docs/operate/restore.md"
            }
            Why::Rejected => {
                "fix what the message names. If leafd's tables are intact, check for a trigger or rule on one of them"
            }
            Why::Locked => "stop the other program that has the store's file open",
            Why::Silent | Why::Other | Why::RegistryClock if embedded => {
                "check the disk of the store's file (free space, its mount, the kernel's log)"
            }
            Why::Silent | Why::Other | Why::RegistryClock => {
                "check that the database is running, and that this host can reach it"
            }
        };
        format!("{remedy}{then}")
    }
}

impl Origins {
    fn of(spec: &StoreSpec) -> Origins {
        let (embedded, tls) = match &spec.url {
            StoreUrl::Sqlite(_) => (true, None),
            StoreUrl::Postgres(url) | StoreUrl::Mysql(url) => (false, url.tls.as_ref()),
        };
        let roots = tls.and_then(|tls| tls.root_certificates.as_ref());
        let authority = match roots {
            Some(file) => format!("the CA in {} (sslrootcert)", file.display()),
            None => "the CAs that the system trusts (sslrootcert names another)".to_owned(),
        };
        let password = match &spec.password {
            StorePassword::None => format!(
                "no password: set store_password_file, or set {} and restart leafd",
                password_variable(&spec.name)
            ),
            StorePassword::File(path) => format!(
                "the password in {}, which it reads for each connection: correct it there; no restart is needed",
                path.display()
            ),
            StorePassword::Variable(_) => format!(
                "the password in the variable {}: correct it and restart leafd, or keep it in a file (store_password_file), \
                 which needs no restart",
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
    use leafd_core::health::Lasts;
    use leafd_core::store::StoreError;

    const URL: &str = "store=postgres://leafd@db/ids";

    fn remedies(settings: &[&str]) -> (Remedies, StoreSpec) {
        let set = settings.iter().map(|text| (*text).to_owned()).collect();
        let config = Config::load_from(&Args { set, ..Args::default() }, &Env::default()).unwrap();
        (Remedies::of_config(&config), config.routing.stores()[0].clone())
    }

    /// The remedy of a cause in the configured store.
    fn remedy(settings: &[&str], code: Code, why: Why) -> String {
        let (remedies, spec) = remedies(settings);
        remedies.of(&Cause::new(code, store_subject(&spec.name), why, "words", Lasts::Over))
    }

    #[test]
    fn each_cause_has_its_remedy() {
        let of = |code| {
            Remedies { state_dir: "/var/lib/leafd".to_owned(), ..Remedies::default() }
                .of(&Cause::new(code, "orders", Why::Other, "words", Lasts::Over))
        };
        for (code, expected) in [
            (Code::JournalFailing, "/var/lib/leafd"),
            (Code::StoreAway, "database is running"),
            (Code::StoreRefused, "database is running"),
            (Code::ClaimsFailing, "database is running"),
            (Code::StoreSettling, "wait"),
            (Code::RegistrySettling, "wait"),
            (Code::TagClaimsFailing, "leafctl tag show \"orders\""),
            (Code::TagUsedUp, "leafctl tag set \"orders\" --ceiling N"),
            (Code::TagNearCeiling, "leafctl tag set \"orders\" --ceiling N"),
            (Code::RegistryAway, "database is running"),
            (Code::WorkerRefused, "database is running"),
            (Code::RegistryReplaced, "restore the original database"),
            (Code::WorkersTaken, "leafctl worker release --worker N;"),
            (Code::WorkerShared, "static:N"),
            (Code::WorkerLost, "wait"),
            (Code::IdentityInUse, "its own identity"),
            (Code::ClockOff, "host's clock"),
            (Code::ClockBehind, "host's clock"),
            (Code::LayoutUsedUp, "new layout"),
            (Code::LayoutContradicted, "restart leafd"),
        ] {
            assert!(of(code).contains(expected), "{code}: {}", of(code));
        }
        for code in [Code::WorkerStarting, Code::WorkerReleased] {
            assert_eq!(of(code), "", "{code} ends by itself");
        }
    }

    #[test]
    fn each_class_of_a_reason_has_its_remedy() {
        for (why, expected) in [
            (Why::Other, "database is running"),
            (Why::Silent, "database is running"),
            (Why::Login, "no password"),
            (Why::Certificate, "the system trusts"),
            (Why::NoTls, "sslmode=disable"),
            (Why::ReadablePassword, "sslmode=verify-full"),
            (Why::UnknownDatabase, "create the database"),
            (Why::ReadOnly, "accept writes"),
            (Why::Locked, "other program"),
            (Why::AnotherDatabase, "leafd adopt-store"),
            (Why::OtherRoutes, "the routes of the other hosts"),
            (Why::NoRoutes, "leafd routes apply"),
            (Why::MissingPrivileges, "many-hosts.md"),
            (Why::MissingTables, "leafd schema apply"),
            (Why::HiddenTables, "privileges on it"),
            (Why::ForeignValue, "backup"),
            (Why::RowSetBack, "leafctl tag raise"),
            (Why::Rejected, "trigger"),
        ] {
            let codes =
                [Code::StoreAway, Code::StoreRefused, Code::ClaimsFailing, Code::WorkerRefused];
            let of_a_tag = (why == Why::RowSetBack).then_some(Code::TagClaimsFailing);
            for code in codes.into_iter().chain(of_a_tag) {
                let text = remedy(&[URL], code, why);
                assert!(text.contains(expected), "{why:?}: {text}");
            }
        }
        assert!(
            remedy(&["store=sqlite:/x"], Code::StoreAway, Why::Other).contains("check the disk")
        );
    }

    #[test]
    fn nothing_in_a_url_decides_a_remedy() {
        for url in [
            "postgres://leafd@db-standby1/ids",
            "postgres://leafd@db:11432/ids",
            "postgres://leafd@db:28000/ids",
            "mysql://certificate@read-only:1142/locked",
        ] {
            let (remedies, spec) = remedies(&[&format!("store={url}")]);
            let store = spec.url.to_string();
            let error = StoreError::Unavailable { store, cause: "Connection refused".into() };
            let advice = remedies.of_error(&spec, error.why());
            assert!(advice.starts_with("check that the database is running"), "{url}: {advice}");
        }
    }

    #[cfg(feature = "postgres")]
    #[test]
    fn a_refused_connection_is_no_class_whatever_its_port() {
        // Nobody listens on these ports of this address.
        for port in [11_432, 28_000] {
            let settings = [format!("store=postgres://leafd@127.213.7.9:{port}/db-standby1")];
            let set = settings.to_vec();
            let config =
                Config::load_from(&Args { set, ..Args::default() }, &Env::default()).unwrap();
            let spec = &config.routing.stores()[0];
            let mut store = crate::run::backends::open_store(&config, spec).unwrap();
            let error = store.identity().unwrap_err();
            let advice = Remedies::of_config(&config).of_error(spec, error.why());
            assert!(advice.starts_with("check that the database is running"), "{error}: {advice}");
            assert!(!advice.contains("retries"), "a command runs once: {advice}");
        }
    }

    #[test]
    fn a_clock_that_is_behind_is_set_where_it_is() {
        let text = remedy(&["store=sqlite:/x"], Code::WorkerRefused, Why::RegistryClock);
        assert!(text.contains("the host's clock"), "{text}");
        let text = remedy(&[URL], Code::WorkerRefused, Why::RegistryClock);
        assert!(text.contains("the registry's server"), "{text}");
    }

    #[test]
    fn zookeeper_is_repaired_by_what_is_wrong_with_it() {
        let of = |code| {
            Remedies::default().of(&Cause::new(code, ZOOKEEPER, Why::Other, "words", Lasts::Over))
        };
        assert!(of(Code::RegistryAway).contains("quorum"));
        assert!(of(Code::WorkerRefused).contains("fix what the message names"));
        assert!(of(Code::RegistryReplaced).contains("--worker none"));
    }

    #[test]
    fn a_rejected_login_leads_to_where_the_password_is_read_from() {
        let text = remedy(&[URL, "store_password_file=/etc/pw"], Code::StoreAway, Why::Login);
        assert!(text.contains("in /etc/pw, which it reads for each connection"), "{text}");
        assert!(text.contains("allowed to log in"), "{text}");
        let text = remedy(&[URL], Code::StoreAway, Why::Login);
        assert!(text.contains("no password") && text.contains("LEAFD_STORE_PASSWORD"), "{text}");
    }

    #[test]
    fn a_rejected_certificate_leads_to_the_authority() {
        let url = "store=postgres://leafd@db/ids?sslrootcert=/etc/ca.pem";
        let text = remedy(&[url], Code::StoreAway, Why::Certificate);
        assert!(text.contains("the CA in /etc/ca.pem"), "{text}");
        let url = "store=mysql://leafd@db/ids?sslmode=verify-full";
        let text = remedy(&[url], Code::StoreAway, Why::Certificate);
        assert!(text.contains("the system trusts"), "{text}");
    }
}
