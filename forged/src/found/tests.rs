//! Projects that are opened when they are used, in real directories.

use std::fs;
use std::future::Future;
use std::time::Duration;

use fmail_api::{Context, Event, EventStream, Request, Response, SendRequest, WatchRequest};
use fmail_host::{Environment, Settings};
use futures::StreamExt;
use futures::future::join_all;
use rustix::fs::{FlockOperation, flock};
use tempfile::TempDir;

use super::*;
use crate::lock::RootLock;

/// How long anything may take before a test fails.
const DEADLINE: Duration = Duration::from_secs(30);

/// A home with projects in it.
struct Home {
    top: TempDir,
}

impl Home {
    fn new() -> Home {
        Home { top: tempfile::tempdir().unwrap() }
    }

    fn environment(&self) -> Environment {
        let home = self.top.path().canonicalize().unwrap();
        let mut environment = Environment::new(home.clone(), [("HOME".to_string(), home.display().to_string())].into());
        environment.system_dir = home.join("etc");
        environment
    }

    fn found(&self, limit: usize) -> Arc<Found> {
        let catalogue = Catalogue::new(&self.environment(), &Settings::default(), &[], Arc::new(|_| {}));
        Arc::new(Found::new(catalogue, HashMap::new(), limit))
    }

    fn directory(&self, name: &str) -> PathBuf {
        let path = self.top.path().canonicalize().unwrap().join(name);
        fs::create_dir_all(&path).unwrap();
        path
    }

    async fn project(&self, found: &Arc<Found>, name: &str) -> PathBuf {
        found.find(&self.directory(name), true).await.unwrap().root
    }
}

fn run(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .max_blocking_threads(2 * crate::client::AT_A_TIME)
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async { tokio::time::timeout(DEADLINE, test).await.expect("in time") });
    runtime.shutdown_timeout(Duration::from_secs(1));
}

fn alice() -> Context {
    Context::local("alice".parse().unwrap())
}

async fn send(client: &Arc<dyn Client>) -> Result<Response> {
    let request = SendRequest::new("task".parse().unwrap(), "hello");
    client.call(&alice(), Request::Send(Box::new(request))).await.map(|reply| reply.head)
}

async fn watch(client: &Arc<dyn Client>) -> EventStream {
    client.call(&alice(), Request::Watch(WatchRequest::default())).await.unwrap().events.unwrap()
}

fn address(client: &Arc<dyn Client>) -> *const () {
    Arc::as_ptr(client).cast()
}

fn open_roots(found: &Found) -> Vec<PathBuf> {
    let mut roots = found.each_open(|open| open.client.project.root.clone());
    roots.sort();
    roots
}

#[test]
fn however_many_ask_at_once_a_project_is_opened_once() {
    run(async {
        let home = Home::new();
        let found = home.found(8);
        let root = home.project(&found, "app").await;
        let clients = join_all((0..50).map(|_| found.open(&root))).await;
        let clients: Vec<_> = clients.into_iter().map(|client| client.unwrap()).collect();
        assert!(clients.iter().all(|client| address(client) == address(&clients[0])));
        send(&clients[7]).await.unwrap();
        assert_eq!(fs::read_dir(root.join(".fmail/topics/task")).unwrap().count(), 1);
    });
}

#[test]
fn one_who_goes_away_while_it_is_opened_leaves_nothing_half_done() {
    run(async {
        let home = Home::new();
        let found = home.found(8);
        let root = home.project(&found, "app").await;
        for _ in 0..20 {
            let mut opening = Box::pin(found.open(&root));
            let _ = futures::poll!(&mut opening);
            drop(opening);
            let client = found.open(&root).await.unwrap();
            drop(client);
            found.close_idle(Duration::ZERO);
        }
    });
}

#[test]
fn the_project_that_nobody_used_for_the_longest_time_makes_room() {
    run(async {
        let home = Home::new();
        let found = home.found(2);
        let mut roots = Vec::new();
        for name in ["a", "b", "c", "d"] {
            roots.push(home.project(&found, name).await);
        }
        found.open(&roots[0]).await.unwrap();
        found.open(&roots[1]).await.unwrap();
        found.open(&roots[0]).await.unwrap();
        found.open(&roots[2]).await.unwrap();
        assert_eq!(open_roots(&found), [roots[0].clone(), roots[2].clone()]);
        // One that is held is not the one to go, however long ago it was asked for.
        let held = found.open(&roots[0]).await.unwrap();
        found.open(&roots[2]).await.unwrap();
        found.open(&roots[3]).await.unwrap();
        assert_eq!(open_roots(&found), [roots[0].clone(), roots[3].clone()]);
        send(&held).await.unwrap();
        // What was closed is opened again, with everything in it.
        let again = found.open(&roots[1]).await.unwrap();
        send(&again).await.unwrap();
    });
}

#[test]
fn a_project_with_an_open_watch_is_not_closed_and_who_finds_no_room_is_told() {
    run(async {
        let home = Home::new();
        let found = home.found(1);
        let (one, two) = (home.project(&found, "one").await, home.project(&found, "two").await);
        let client = found.open(&one).await.unwrap();
        let mut events = watch(&client).await;
        drop(client);
        let error = found.open(&two).await.err().unwrap();
        assert_eq!(error.kind(), ErrorKind::Backpressure);
        assert!(error.help_text().unwrap().contains("mail.projects.open"), "{error}");
        found.close_idle(Duration::ZERO);
        send(&found.open(&one).await.unwrap()).await.unwrap();
        while !matches!(events.next().await.unwrap().unwrap(), Event::Message(_)) {}
        drop(events);
        send(&found.open(&two).await.unwrap()).await.unwrap();
    });
}

#[test]
fn idle_projects_are_closed_and_forgotten() {
    run(async {
        let home = Home::new();
        let found = home.found(8);
        let root = home.project(&found, "app").await;
        found.open(&root).await.unwrap();
        found.tidy();
        assert_eq!(open_roots(&found).len(), 1, "it was just used");
        found.close_idle(Duration::ZERO);
        assert_eq!(open_roots(&found).len(), 0);
        while !relock(&found.slots).is_empty() {
            tokio::task::yield_now().await;
            found.close_idle(Duration::ZERO);
        }
        // Nothing keeps others from it any more.
        RootLock::keep_daemons_away(&root.join(".fmail")).unwrap();
    });
}

#[test]
fn a_project_that_is_removed_while_open_is_an_error_of_its_own_requests_only() {
    run(async {
        let home = Home::new();
        let found = home.found(8);
        let (one, two) = (home.project(&found, "one").await, home.project(&found, "two").await);
        let (client, other) = (found.open(&one).await.unwrap(), found.open(&two).await.unwrap());
        send(&client).await.unwrap();
        fs::remove_dir_all(one.join(".fmail")).unwrap();
        let error = send(&client).await.unwrap_err();
        assert!(error.kind() == ErrorKind::InvalidProject && error.to_string().contains("removed"), "{error}");
        assert!(!one.join(".fmail").exists(), "nothing begins anew by itself");
        assert_eq!(found.open(&one).await.err().unwrap().kind(), ErrorKind::InvalidProject);
        send(&other).await.unwrap();
        assert!(found.find(&one, true).await.unwrap().new);
        send(&found.open(&one).await.unwrap()).await.unwrap();
    });
}

#[test]
fn a_watch_ends_with_an_error_when_its_project_is_gone() {
    run(async {
        let home = Home::new();
        let found = home.found(8);
        let root = home.project(&found, "app").await;
        let mut events = watch(&found.open(&root).await.unwrap()).await;
        fs::rename(root.join(".fmail"), root.join("moved")).unwrap();
        found.tidy();
        let last = loop {
            match events.next().await.expect("an error before the end") {
                Ok(_) => {}
                Err(error) => break error,
            }
        };
        assert_eq!(last.kind(), ErrorKind::InvalidProject, "{last}");
        assert!(events.next().await.is_none());
    });
}

#[test]
fn a_project_that_another_daemon_serves_is_shared_with_it_where_the_store_is() {
    run(async {
        let home = Home::new();
        let found = home.found(8);
        let root = home.project(&found, "app").await;
        let _other = RootLock::take(&root.join(".fmail")).unwrap();
        send(&found.open(&root).await.unwrap()).await.unwrap();
        drop(_other);
        // And the other way round: a daemon may be started for what was found.
        RootLock::take(&root.join(".fmail")).unwrap();
    });
}

#[test]
fn a_store_that_lives_in_one_process_is_served_by_one_and_never_closed_for_room() {
    run(async {
        let home = Home::new();
        let found = home.found(1);
        let (memory, files) = (home.project(&found, "memory").await, home.project(&found, "files").await);
        fs::write(memory.join(".fmail/config.toml"), "mail.store = 'memory'\n").unwrap();
        let other = RootLock::take(&memory.join(".fmail")).unwrap();
        let error = found.open(&memory).await.err().unwrap();
        assert_eq!(error.kind(), ErrorKind::Conflict);
        assert!(error.to_string().contains(&std::process::id().to_string()), "{error}");
        drop(other);
        send(&found.open(&memory).await.unwrap()).await.unwrap();
        found.close_idle(Duration::ZERO);
        assert_eq!(found.open(&files).await.err().unwrap().kind(), ErrorKind::Backpressure);
        assert_eq!(open_roots(&found), [memory]);
    });
}

#[test]
fn a_project_is_not_opened_while_its_store_is_copied_nor_copied_while_open() {
    run(async {
        let home = Home::new();
        let found = home.found(8);
        let root = home.project(&found, "app").await;
        let copying = RootLock::keep_daemons_away(&root.join(".fmail")).unwrap();
        let error = found.open(&root).await.err().unwrap();
        assert!(error.to_string().contains("store copy"), "{error}");
        drop(copying);
        found.open(&root).await.unwrap();
        assert!(RootLock::keep_daemons_away(&root.join(".fmail")).is_err());
    });
}

#[test]
fn what_was_not_found_is_not_opened_and_not_remembered() {
    run(async {
        let home = Home::new();
        let found = home.found(8);
        for root in [home.directory("no-project"), "/etc".into(), "/".into(), "relative".into()] {
            assert!(found.open(&root).await.is_err(), "{}", root.display());
        }
        assert!(relock(&found.slots).is_empty());
    });
}

#[test]
fn a_project_reads_its_own_configuration_by_the_rules_of_trust() {
    run(async {
        let home = Home::new();
        let found = home.found(8);
        let root = home.project(&found, "app").await;
        fs::write(root.join(".fmail/config.toml"), "mail.max_message_bytes = 128\n").unwrap();
        let long = SendRequest::new("task".parse().unwrap(), "x".repeat(200));
        let client = found.open(&root).await.unwrap();
        let error = client.call(&alice(), Request::Send(Box::new(long))).await.err().unwrap();
        assert_eq!(error.kind(), ErrorKind::TooLarge);
        let other = home.project(&found, "other").await;
        fs::write(other.join(".fmail/config.toml"), "mail.plugins.path = ['/tmp']\n").unwrap();
        let error = found.open(&other).await.err().unwrap();
        assert!(error.to_string().contains("mail.plugins.path"), "{error}");
    });
}

#[test]
fn a_project_that_hangs_leaves_the_others_alone() {
    run(async {
        let home = Home::new();
        let found = home.found(8);
        let (stuck, other) = (home.project(&found, "stuck").await, home.project(&found, "other").await);
        let client = found.open(&stuck).await.unwrap();
        send(&client).await.unwrap();
        let lock = fs::File::open(stuck.join(".fmail/lock")).unwrap();
        flock(&lock, FlockOperation::LockExclusive).unwrap();
        // More than there are threads.
        let waiting: Vec<_> = (0..4 * crate::client::AT_A_TIME)
            .map(|_| {
                let client = client.clone();
                tokio::spawn(async move { send(&client).await })
            })
            .collect();
        let turns = || found.each_open(|open| (open.client.project.root.clone(), open.client.turns_left()));
        while turns().iter().any(|(root, left)| *left > 0 && *root == stuck) {
            tokio::task::yield_now().await;
        }
        for _ in 0..5 {
            send(&found.open(&other).await.unwrap()).await.unwrap();
        }
        assert!(waiting.iter().all(|one| !one.is_finished()));
        drop(lock);
        for one in waiting {
            one.await.unwrap().unwrap();
        }
    });
}

/// A send is stored on the thread that it came to. The runtime must not miss that thread.
#[test]
fn a_send_that_hangs_where_it_came_in_holds_up_nobody_else() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let test = async {
        let home = Home::new();
        let found = home.found(8);
        let (stuck, other) = (home.project(&found, "stuck").await, home.project(&found, "other").await);
        for root in [&stuck, &other] {
            fs::write(root.join(".fmail/config.toml"), "mail.durability = 'os'\n").unwrap();
        }
        let (client, free) = (found.open(&stuck).await.unwrap(), found.open(&other).await.unwrap());
        send(&client).await.unwrap();
        let lock = fs::File::open(stuck.join(".fmail/lock")).unwrap();
        flock(&lock, FlockOperation::LockExclusive).unwrap();
        let hanging = tokio::spawn(async move { send(&client).await });
        let busy = || found.each_open(|open| (open.client.project.root.clone(), open.client.is_busy()));
        while !busy().contains(&(stuck.clone(), true)) {
            tokio::task::yield_now().await;
        }
        for _ in 0..5 {
            let free = free.clone();
            tokio::spawn(async move { send(&free).await }).await.unwrap().unwrap();
        }
        assert!(!hanging.is_finished());
        drop(lock);
        hanging.await.unwrap().unwrap();
    };
    runtime.block_on(async { tokio::time::timeout(DEADLINE, test).await.expect("in time") });
    runtime.shutdown_timeout(Duration::from_secs(1));
}

#[test]
fn opening_one_project_does_not_wait_for_another() {
    run(async {
        let home = Home::new();
        let found = home.found(8);
        let (slow, other) = (home.project(&found, "slow").await, home.project(&found, "other").await);
        found.open(&slow).await.unwrap();
        let slot = relock(&found.slots)[&slow].clone();
        let _being_opened = slot.open.lock().await;
        send(&found.open(&other).await.unwrap()).await.unwrap();
        let mut waiting = Box::pin(found.open(&slow));
        assert!(futures::poll!(&mut waiting).is_pending());
    });
}

#[test]
fn without_a_place_to_remember_projects_every_request_says_so() {
    run(async {
        let home = Home::new();
        let mut environment = home.environment();
        environment.vars.clear();
        let catalogue = Catalogue::new(&environment, &Settings::default(), &[], Arc::new(|_| {}));
        let found = Arc::new(Found::new(catalogue, HashMap::new(), 8));
        let error = found.find(Path::new("/app"), true).await.unwrap_err();
        assert!(error.to_string().contains("HOME"), "{error}");
        assert!(found.hosted().await.is_err() && found.open(Path::new("/app")).await.is_err());
    });
}

/// What is logged on this thread while something runs.
fn logged(run: impl FnOnce()) -> String {
    let written: Arc<Mutex<Vec<u8>>> = Arc::default();
    let log = Written(written.clone());
    let subscriber = tracing_subscriber::fmt().with_ansi(false).with_writer(move || log.clone()).finish();
    tracing::subscriber::with_default(subscriber, run);
    String::from_utf8(relock(&written).clone()).unwrap()
}

#[derive(Clone)]
struct Written(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Written {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        relock(&self.0).extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn that_a_project_is_gone_is_logged_once() {
    let home = Home::new();
    let root = home.directory("app");
    fs::create_dir(root.join(".fmail")).unwrap();
    let mut environment = home.environment();
    environment.cwd = root.clone();
    let guarded = Guarded::new(&fmail_host::Project::discover(&environment).unwrap()).unwrap();
    let log = logged(|| {
        guarded.check().unwrap();
        fs::remove_dir(root.join(".fmail")).unwrap();
        for _ in 0..3 {
            guarded.check().unwrap_err();
        }
    });
    assert_eq!(log.matches("a project is gone").count(), 1, "{log}");
    assert!(log.contains("WARN") && log.contains("app/.fmail"), "{log}");
}
