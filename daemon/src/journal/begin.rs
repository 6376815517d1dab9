//! Creates a new journal, for a host without one, or in place of a journal that is a copy or was restored.
//!
//! The new journal is completed and synced under another name before it is renamed, so that no crash leaves an
//! incomplete one. A copy keeps its name until it is replaced.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rusqlite::Connection;

use super::db::{self, Db, Syncs, connect};
use super::fault::Fault;
use super::identity::Identity;
use super::records::{self, Meta};
use super::tags::TagState;
use super::{LayoutRecord, schema, stores, tags};
use crate::random;
use crate::state_dir::{StateDir, beside};
use leafd_core::store::HostId;

/// How many names are tried for journals that are set aside in the same second.
const NAME_ATTEMPTS: u32 = 100;

/// Creates a journal if there is none.
pub(super) fn first(dir: &StateDir, identity: &Identity) -> Result<(), Fault> {
    let path = db::file_in(dir);
    // SQLite would replay a log without its database into the new database.
    let log = beside(&path, "-wal");
    if exists(&log)? {
        let kept = unused_name(&log, "orphan", |name| fs::rename(&log, name))?;
        tracing::warn!(
            log = %log.display(), kept = %kept.display(),
            "found a write-ahead log without its journal: moved the log aside; this host starts with a new journal"
        );
    }
    let new = build(dir, identity, None)?;
    put_in_place(dir, &new, &path)
}

/// Replaces a journal that is not this host's, or not its latest, by a new one. The new journal takes over the lower
/// limits of ids, marks and highest ends, which may be too high, but that does no harm. It also takes over the location
/// and history of each store, so that a change is detected. It doesn't take over held ids, or what stores confirmed.
/// The name under which the old journal is kept contains `kind`.
pub(super) fn instead_of(
    old: Db,
    dir: &StateDir,
    identity: &Identity,
    kind: &str,
) -> Result<PathBuf, Fault> {
    let path = db::file_in(dir);
    let new = build(dir, identity, Some(&old.conn))?;
    db::fold(&old.conn)?;
    drop(old);
    if exists(&beside(&path, "-wal"))? {
        return Err(Fault(
            "it must be set aside, but its write-ahead log could not be closed: close any other program that has it \
             open, then start leafd again"
                .to_owned(),
        ));
    }
    // The old journal gets a second name first, so that a journal exists at every instant and no content is lost.
    let kept = unused_name(&path, kind, |name| fs::hard_link(&path, name))?;
    dir.sync().map_err(Fault::io("syncing the state directory"))?;
    put_in_place(dir, &new, &path)?;
    Ok(kept)
}

fn put_in_place(dir: &StateDir, new: &Path, path: &Path) -> Result<(), Fault> {
    fs::rename(new, path).and_then(|()| dir.sync()).map_err(Fault::io("renaming the new journal"))
}

/// Creates a complete journal under another name. Returns its path.
fn build(dir: &StateDir, identity: &Identity, from: Option<&Connection>) -> Result<PathBuf, Fault> {
    let path = dir.path().join("journal.db.new");
    let trying = Fault::io("creating a new journal");
    for suffix in ["", "-wal", "-shm", "-journal"] {
        match fs::remove_file(beside(&path, suffix)) {
            Err(e) if e.kind() != ErrorKind::NotFound => return Err(trying(e)),
            _ => {}
        }
    }
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path).map_err(trying)?;
    // The fingerprint of this file, because renaming changes neither its inode nor its birth time.
    let fingerprint = identity.fingerprint(&path).map_err(trying)?;
    let host = HostId(random::token().into());
    let meta = Meta { host, fingerprint, commits: 0, counted: 0, stopped_cleanly: false };
    fill(&path, meta, from).map_err(|fault| fault.while_trying("creating a new journal"))?;
    File::open(&path).and_then(|file| file.sync_all()).map_err(trying)?;
    Ok(path)
}

fn fill(path: &Path, mut meta: Meta, from: Option<&Connection>) -> Result<(), Fault> {
    // It is synced only once it is complete, because a file that a crash leaves under this name is removed.
    let mut conn = connect(path, Syncs::Nothing)?;
    let transaction = conn.transaction()?;
    schema::create(&transaction)?;
    if let Some(from) = from {
        carry_over(from, &transaction)?;
    }
    meta.counted = records::count(&transaction)?;
    records::write(&transaction, &meta)?;
    transaction.commit()?;
    // Only the database file is renamed, so everything must be in it.
    db::fold(&conn)?;
    conn.close().map_err(|(_, e)| Fault::from(e))
}

fn carry_over(from: &Connection, to: &Connection) -> Result<(), Fault> {
    for record in records::read_all::<LayoutRecord>(from)? {
        records::write(to, &record)?;
    }
    stores::begin_anew(from, to)?;
    tags::each(from, |store, tag, state| {
        let state = TagState { segments: Vec::new(), ..state };
        Ok(state.write(to, &store, &tag)?)
    })
}

fn exists(path: &Path) -> Result<bool, Fault> {
    match fs::symlink_metadata(path) {
        Ok(_) => Ok(true),
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(false),
        Err(e) => Err(Fault::io(&format!("inspecting {}", path.display()))(e)),
    }
}

/// Finds an unused name that contains the reason and the time, and passes it to `take`.
fn unused_name(
    path: &Path,
    why: &str,
    take: impl Fn(&Path) -> io::Result<()>,
) -> Result<PathBuf, Fault> {
    let time = jiff::Timestamp::now().strftime("%Y%m%dT%H%M%SZ");
    for attempt in 0..NAME_ATTEMPTS {
        let number = if attempt == 0 { String::new() } else { format!("-{attempt}") };
        let name = beside(path, &format!(".{why}-{time}{number}"));
        if exists(&name)? {
            continue;
        }
        take(&name).map_err(Fault::io(&format!("setting it aside as {}", name.display())))?;
        return Ok(name);
    }
    Err(Fault(format!("too many files named {}.{why}-{time}: move them away", path.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_are_set_aside_in_the_same_second_get_names_of_their_own() {
        let folder = tempfile::tempdir().unwrap();
        let mut names = Vec::new();
        for _ in 0..20 {
            let take = |name: &Path| File::create_new(name).map(drop);
            names.push(unused_name(&folder.path().join("journal.db"), "old", take).unwrap());
        }
        assert!(names[0].to_str().unwrap().ends_with('Z'), "{names:?}");
        let is_second = |name: &PathBuf| name.to_str().unwrap().ends_with("Z-1");
        assert!(names.iter().any(is_second), "{names:?}");
        assert!(exists(&names[0]).unwrap() && !exists(&folder.path().join("other")).unwrap());
        assert!(exists(&names[0].join("name")).is_err(), "a file is no folder");
    }
}
