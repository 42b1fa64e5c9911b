//! Files that are not as we left them: each is told for what it is, and left as it is.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use fmail_api::{Draft, Error, ErrorKind, Event, NoticeKind, Query, Result, Store};
use fmail_sqlite::{FORMAT, SqliteOptions, SqliteStore};
use futures::StreamExt;
use futures::executor::block_on;
use rusqlite::Connection;
use tempfile::TempDir;

fn draft(body: &str) -> Draft {
    Draft::new("alice".parse().unwrap(), "task".parse().unwrap(), body)
}

fn open(path: &Path) -> Result<SqliteStore> {
    SqliteStore::open(SqliteOptions::new(path))
}

fn refused(path: &Path) -> Error {
    match open(path) {
        Ok(_) => panic!("{} was opened", path.display()),
        Err(error) => error,
    }
}

/// A database with messages, closed, and all of it in one file.
fn filled(count: usize) -> (TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("mail.sqlite");
    let store = open(&path).unwrap();
    for number in 0..count {
        block_on(store.append(draft(&format!("{number} {}", "text ".repeat(200))))).unwrap();
    }
    block_on(store.close()).unwrap();
    let connection = Connection::open(&path).unwrap();
    connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", (), |_| Ok(())).unwrap();
    (directory, path)
}

#[test]
fn a_file_that_is_no_database_is_corrupt_and_stays() {
    let (_directory, path) = filled(0);
    for content in ["not a database, but long enough to be one at a glance".repeat(100), "x".into()] {
        fs::write(&path, &content).unwrap();
        let error = refused(&path);
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{error:?}");
        assert!(error.to_string().contains("mail.sqlite") && error.help_text().is_some(), "{error:?}");
        assert_eq!(fs::read_to_string(&path).unwrap(), content);
    }
}

#[test]
fn damage_in_the_middle_is_an_error_and_never_an_empty_answer() {
    let (_directory, path) = filled(200);
    let mut bytes = fs::read(&path).unwrap();
    let middle = 3 * 4096..bytes.len();
    bytes[middle].fill(0xa5);
    fs::write(&path, &bytes).unwrap();
    let answer = open(&path).and_then(|store| {
        block_on(async {
            let mut messages = store.scan(Query::default()).await?.messages;
            while let Some(event) = messages.next().await {
                event?;
            }
            Ok(())
        })
    });
    assert_eq!(answer.unwrap_err().kind(), ErrorKind::Corrupt);
    assert_eq!(fs::read(&path).unwrap(), bytes, "the damaged file was changed");
}

#[test]
fn a_newer_format_is_refused_and_not_written() {
    let (_directory, path) = filled(3);
    let connection = Connection::open(&path).unwrap();
    connection.pragma_update(None, "user_version", FORMAT + 1).unwrap();
    connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", (), |_| Ok(())).unwrap();
    drop(connection);
    let before = fs::read(&path).unwrap();
    let error = refused(&path);
    assert_eq!(error.kind(), ErrorKind::InvalidProject);
    assert!(error.to_string().contains("format 2") && error.to_string().contains("knows 1"), "{error}");
    assert_eq!(fs::read(&path).unwrap(), before);
}

#[test]
fn a_database_of_another_program_is_refused_and_not_written() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("places.sqlite");
    Connection::open(&path).unwrap().execute_batch("CREATE TABLE bookmarks (url)").unwrap();
    let before = fs::read(&path).unwrap();
    let error = refused(&path);
    assert_eq!(error.kind(), ErrorKind::InvalidProject);
    assert!(error.to_string().contains("another program"), "{error}");
    assert_eq!(fs::read(&path).unwrap(), before);
}

#[test]
fn what_is_no_regular_file_is_refused() {
    let (directory, path) = filled(1);
    let link = directory.path().join("link.sqlite");
    symlink(&path, &link).unwrap();
    let dangling = directory.path().join("dangling.sqlite");
    symlink(directory.path().join("elsewhere"), &dangling).unwrap();
    for (place, what) in [(link, "a symlink"), (dangling, "a symlink"), (directory.path().into(), "not a regular file")]
    {
        let error = refused(&place);
        assert_eq!(error.kind(), ErrorKind::InvalidProject, "{error:?}");
        assert!(error.to_string().contains(what), "{error}");
    }
    assert!(!directory.path().join("elsewhere").exists());
}

#[test]
fn the_files_are_for_their_owner_alone() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a/b/mail.sqlite");
    let store = open(&path).unwrap();
    block_on(store.append(draft("secret"))).unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    for name in ["mail.sqlite", "mail.sqlite-wal", "mail.sqlite-shm"] {
        assert_eq!(mode(&path.with_file_name(name)), 0o600, "{name}");
    }
    assert_eq!((mode(&directory.path().join("a")), mode(&directory.path().join("a/b"))), (0o700, 0o700));
}

#[test]
fn a_database_that_was_removed_or_replaced_while_open_takes_no_messages() {
    let (_directory, path) = filled(1);
    let store = open(&path).unwrap();
    let aside = path.with_file_name("aside");
    fs::rename(&path, &aside).unwrap();
    let error = block_on(store.append(draft("lost"))).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(error.to_string().contains("removed"), "{error}");
    assert_eq!(block_on(store.health()).unwrap_err().kind(), ErrorKind::Unavailable);
    fs::write(&path, "").unwrap();
    let error = block_on(store.append(draft("lost"))).unwrap_err();
    assert!(error.to_string().contains("replaced"), "{error}");
    fs::rename(&aside, &path).unwrap();
    block_on(store.append(draft("kept"))).unwrap();
}

#[test]
fn a_row_that_cannot_be_understood_is_told_and_the_others_are_delivered() {
    let (_directory, path) = filled(3);
    let connection = Connection::open(&path).unwrap();
    connection.execute("UPDATE messages SET json = '{' WHERE arrival = 2", ()).unwrap();
    connection.execute("INSERT INTO records VALUES ('leases', 'no json')", ()).unwrap();
    drop(connection);
    let store = open(&path).unwrap();
    let events: Vec<Event> =
        block_on(async { store.scan(Query::default()).await.unwrap().messages.map(Result::unwrap).collect().await });
    let broken = |event: &Event| matches!(event, Event::Notice(notice) if notice.kind == NoticeKind::Broken);
    assert_eq!(events.iter().map(broken).collect::<Vec<_>>(), [false, true, false]);
    assert_eq!(block_on(store.get(&"leases".parse().unwrap())).unwrap_err().kind(), ErrorKind::Corrupt);
    // It can be taken away, from every place that it stood in.
    let everything = fmail_api::Selection { before: Some("9999-01-01".parse().unwrap()), ..Default::default() };
    let removed = block_on(async { store.remove(everything).await.unwrap().count().await });
    assert_eq!(removed, 3);
    assert!(block_on(store.summary(Query::default())).unwrap().targets.is_empty());
}

/// The superuser may write everything, so the test becomes another user where it can.
#[test]
fn a_database_that_may_only_be_read_is_read_and_says_so() {
    const PLACE: &str = "FMAIL_SQLITE_READ_ONLY";
    if let Some(path) = std::env::var_os(PLACE) {
        let store = open(Path::new(&path)).unwrap();
        let health = block_on(store.health()).unwrap();
        assert!(!health.writable && health.detail.contains("only be read"), "{health:?}");
        assert_eq!(block_on(async { store.scan(Query::default()).await.unwrap().messages.count().await }), 5);
        let error = block_on(store.append(draft("x"))).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Denied, "{error:?}");
        println!("read");
        return;
    }
    let (directory, path) = filled(5);
    // In one state the log and its index are there, in the other the file is all there is.
    for companions in [false, true] {
        let keeps_log = companions.then(|| open(&path).unwrap());
        fs::set_permissions(&path, fs::Permissions::from_mode(0o444)).unwrap();
        for name in ["mail.sqlite-wal", "mail.sqlite-shm"].map(|name| path.with_file_name(name)) {
            assert_eq!(name.exists(), companions);
            if companions {
                fs::set_permissions(name, fs::Permissions::from_mode(0o444)).unwrap();
            }
        }
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o555)).unwrap();
        let mut command = std::process::Command::new("/proc/self/exe");
        command.args(["--exact", "a_database_that_may_only_be_read_is_read_and_says_so", "--nocapture"]);
        if fs::metadata("/proc/self").unwrap().uid() == 0 {
            std::os::unix::process::CommandExt::uid(&mut command, 65_534);
        }
        let output = command.env(PLACE, &path).output().unwrap();
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(text.contains("read\n"), "{companions}: {text}{}", String::from_utf8_lossy(&output.stderr));
        drop(keeps_log);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    }
}
