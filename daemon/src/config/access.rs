//! Who may draw which tags, and who may administer: rules from the configuration, compiled for fast checks.

use std::collections::BTreeSet;
use std::sync::Arc;

use leafd_core::quota::Quota;

use super::pattern::{self, Pattern, PatternIndex};
use super::value::{ConfigNode, InvalidValue};

/// The process at the other end of a connection, as the kernel reports it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Its effective user.
    pub uid: u32,
    /// Its groups that a rule names. A process can have 65,536 others.
    pub gids: Vec<u32>,
    /// Whether it runs, or may run, outside the daemon's PID namespace. This is checked only if it matters: see
    /// [`AccessRules::looks_at_namespace`].
    pub is_outside: bool,
}

impl Peer {
    /// The daemon itself, whom no rule excludes.
    pub fn own() -> Peer {
        Peer { uid: nix::unistd::geteuid().as_raw(), gids: Vec::new(), is_outside: false }
    }
}

/// The compiled rules. A clone shares them.
#[derive(Clone, Debug)]
pub struct AccessRules(Arc<Compiled>);

#[derive(Debug)]
struct Compiled {
    rules: Vec<Rule>,
    by_pattern: PatternIndex,
    admins: Members,
    /// The groups that any of these rules names.
    gids: BTreeSet<u32>,
    own_uid: u32,
    /// Whether root and the daemon's own user are trusted in other containers too.
    trust_containers: bool,
}

#[derive(Clone, Debug, Default)]
struct Members {
    uids: BTreeSet<u32>,
    gids: BTreeSet<u32>,
}

#[derive(Debug)]
pub(super) struct Rule {
    patterns: Vec<Pattern>,
    /// The users for whom it reserves its tags; `None` for a rule that only sets a quota.
    members: Option<Members>,
    /// The additional users that may mask and unmask the ids of its tags.
    unmaskers: Members,
    /// How much each of its users may draw of each tag.
    quota: Option<Quota>,
}

const RULE_KEYS: &str = "tags, uids, gids, ids_per_second, burst, unmask_uids, unmask_gids";

/// The most ids per second, and in a burst, that a quota can allow.
const QUOTA_MAX: u64 = 1_000_000_000_000;

// === impl AccessRules ===

impl AccessRules {
    pub(super) fn compile(
        rules: Vec<Rule>,
        admin_uids: Vec<u32>,
        admin_gids: Vec<u32>,
        own_uid: u32,
        trust_containers: bool,
    ) -> AccessRules {
        let admins = Members {
            uids: admin_uids.into_iter().collect(),
            gids: admin_gids.into_iter().collect(),
        };
        let named = rules.iter().flat_map(|rule| rule.members.iter().chain([&rule.unmaskers]));
        let gids = named.chain([&admins]).flat_map(|members| &members.gids).copied().collect();
        let by_pattern = PatternIndex::of(rules.iter().map(|rule| &*rule.patterns));
        let compiled = Compiled { rules, by_pattern, gids, admins, own_uid, trust_containers };
        AccessRules(Arc::new(compiled))
    }

    /// Whether this peer may draw ids of this tag (or layout). If no rule matches the tag, everyone may draw it;
    /// otherwise root, the daemon's own user, and the users named by a matching rule.
    pub fn may_draw(&self, tag: &str, peer: &Peer) -> bool {
        let rules = &*self.0;
        if rules.rules.is_empty() || rules.is_trusted(peer) {
            return true;
        }
        let mut reserved = false;
        for members in rules.matching(tag).filter_map(|rule| rule.members.as_ref()) {
            reserved = true;
            if members.name(peer) {
                return true;
            }
        }
        !reserved
    }

    /// The groups that a rule names. A peer's other groups don't matter.
    pub fn gids(&self) -> &BTreeSet<u32> {
        &self.0.gids
    }

    /// Whether it matters in which PID namespace this user's process runs.
    pub fn looks_at_namespace(&self, uid: u32) -> bool {
        !self.0.trust_containers && self.0.is_powerful(uid)
    }

    /// The groups of administrators.
    pub fn admin_gids(&self) -> &BTreeSet<u32> {
        &self.0.admins.gids
    }

    /// Whether a rule reserves this tag (or layout).
    pub fn reserves(&self, tag: &str) -> bool {
        self.0.matching(tag).any(|rule| rule.members.is_some())
    }

    /// Whether a rule reserves any tags.
    pub fn reserves_any(&self) -> bool {
        self.0.rules.iter().any(|rule| rule.members.is_some())
    }

    /// How many ids of this tag (or layout) this peer's user may draw, by the first rule with a quota that matches the
    /// tag and that names the peer or no one.
    pub fn quota(&self, tag: &str, peer: &Peer) -> Option<Quota> {
        let applies = |rule: &&Rule| rule.members.as_ref().is_none_or(|members| members.name(peer));
        self.0.matching(tag).filter(applies).find_map(|rule| rule.quota)
    }

    /// Whether this peer may mask and unmask ids of this tag. Administrators may, and the users that a matching rule
    /// names for that. The right to draw ids is not enough.
    pub fn may_unmask(&self, tag: &str, peer: &Peer) -> bool {
        self.may_administer(peer) || self.0.matching(tag).any(|rule| rule.unmaskers.name(peer))
    }

    /// Whether this peer may create and change tags: root, the daemon's own user, and those in `admin_uids` and
    /// `admin_gids`.
    pub fn may_administer(&self, peer: &Peer) -> bool {
        self.0.is_trusted(peer) || self.0.admins.name(peer)
    }
}

impl Compiled {
    /// The rules that match a tag, those that name it in full first.
    fn matching(&self, tag: &str) -> impl Iterator<Item = &Rule> {
        self.by_pattern.matching(tag).map(|rule| &self.rules[rule])
    }

    /// These can read the journal and stop the daemon anyway.
    fn is_trusted(&self, peer: &Peer) -> bool {
        self.is_powerful(peer.uid) && (self.trust_containers || !peer.is_outside)
    }

    fn is_powerful(&self, uid: u32) -> bool {
        uid == 0 || uid == self.own_uid
    }
}

impl Members {
    fn name(&self, peer: &Peer) -> bool {
        self.uids.contains(&peer.uid) || peer.gids.iter().any(|gid| self.gids.contains(gid))
    }
}

// === parsing ===

pub(super) fn parse_ids(node: &ConfigNode) -> Result<Vec<u32>, InvalidValue> {
    node.items(|item| {
        // For the kernel, the largest 32-bit number means "no change", so no user has it.
        let id = item.integer(0, u64::from(u32::MAX) - 1)?;
        u32::try_from(id).map_err(|_| item.bad())
    })
}

pub(super) fn parse_rules(node: &ConfigNode) -> Result<Vec<Rule>, InvalidValue> {
    node.items(parse_rule)
}

fn parse_rule(node: &ConfigNode) -> Result<Rule, InvalidValue> {
    node.only_keys(RULE_KEYS)?;
    let members = |uids: &str, gids: &str| -> Result<Option<Members>, InvalidValue> {
        let ids = |key: &str| node.field(key, parse_member_ids);
        let found = (ids(uids)?, ids(gids)?);
        let set = |ids: Option<Vec<u32>>| ids.into_iter().flatten().collect();
        let names_somebody = found.0.is_some() || found.1.is_some();
        Ok(names_somebody.then(|| Members { uids: set(found.0), gids: set(found.1) }))
    };
    let (members, unmaskers) = (members("uids", "gids")?, members("unmask_uids", "unmask_gids")?);
    let rate = |key: &str| node.field(key, |value| value.integer(1, QUOTA_MAX));
    let quota = match (rate("ids_per_second")?, rate("burst")?) {
        (None, Some(_)) => return Err(node.bad_because("burst requires ids_per_second")),
        (ids_per_second, burst) => ids_per_second
            .map(|ids_per_second| Quota { ids_per_second, burst: burst.unwrap_or(ids_per_second) }),
    };
    let says_something = members.is_some() || unmaskers.is_some() || quota.is_some();
    let patterns = node.field("tags", pattern::parse_list)?.filter(|_| says_something);
    let Some(patterns) = patterns else { return Err(node.bad()) };
    Ok(Rule { patterns, members, unmaskers: unmaskers.unwrap_or_default(), quota })
}

fn parse_member_ids(node: &ConfigNode) -> Result<Vec<u32>, InvalidValue> {
    parse_ids(node).map_err(|bad| bad.or_for("a list of numbers, such as [1000]"))
}
