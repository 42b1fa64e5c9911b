//! `cargo xtask fixture`: a project that holds many messages, for tests and measurements of scale.
//!
//! Written as another implementation of SPEC.md would write it: message files in their places, no index, nothing
//! synced. A fixture is built once into the target directory; whoever needs one gets a copy made of hard links, which
//! takes a fraction of the time. Messages never change, so sharing their files is safe as long as a test replaces a
//! file and does not write into it.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fmail_api::{AgentName, Draft, Error, Message, MessageId, Priority, Result, Target, Timestamp};

use crate::cargo;
use crate::install::doing;

/// Build a project with many messages
#[derive(Debug, clap::Args)]
pub struct Fixture {
    /// How many messages
    #[arg(long, value_name = "N", default_value_t = 1_000)]
    messages: usize,
    /// Put a copy here; without it, only the shared one in the target directory is built
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

impl Fixture {
    /// Builds the fixture unless it is there, copies it when asked to, and prints where it is.
    pub fn run(&self) -> Result<()> {
        let directory = match &self.dir {
            None => shared(self.messages)?,
            Some(directory) => {
                copy(self.messages, directory)?;
                directory.clone()
            }
        };
        println!("{}", directory.display());
        Ok(())
    }
}

/// The topics of a fixture. `task` is the first.
pub const TOPICS: [&str; 20] = [
    "task",
    "status",
    "build",
    "code-review",
    "docs",
    "deploy",
    "design",
    "editing",
    "errors",
    "ideas",
    "infra",
    "metrics",
    "planning",
    "questions",
    "release",
    "research",
    "security",
    "standup",
    "testing",
    "triage",
];

/// The agents of a fixture: all of them send, all of them have direct messages.
pub const AGENTS: [&str; 10] =
    ["analyzer", "architect", "coder-1", "coder-2", "designer", "lead", "operator", "reviewer", "tester", "writer"];

/// What a fixture's messages are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// To topics, and one in ten to agents.
    Mixed,
    /// All to [`OWNER`].
    Mailbox,
}

impl Kind {
    fn name(self, messages: usize) -> String {
        match self {
            Kind::Mixed => messages.to_string(),
            Kind::Mailbox => format!("mailbox-{messages}"),
        }
    }
}

/// Whose mailbox [`copy_mailbox`] fills.
pub const OWNER: &str = "tester";

/// The messages of a fixture are spread over this time before it is built. A shared fixture that has become this old
/// is built again: so no message ever is as old as the seven days after which `gc` removes it.
const SPAN: Duration = Duration::from_secs(3 * 86_400);

/// Written last: a fixture without it was interrupted.
const COMPLETE: &str = "complete";

/// Copies the shared fixture of this size to `directory`, building it first when it is missing.
///
/// `directory` becomes a project's root; it must not hold a project yet.
pub fn copy(messages: usize, directory: &Path) -> Result<()> {
    copy_of(Kind::Mixed, messages, directory)
}

/// The same with a project whose messages are all in the mailbox of [`OWNER`], unread.
pub fn copy_mailbox(messages: usize, directory: &Path) -> Result<()> {
    copy_of(Kind::Mailbox, messages, directory)
}

fn copy_of(kind: Kind, messages: usize, directory: &Path) -> Result<()> {
    let shared = shared_of(kind, messages)?;
    fs::create_dir_all(directory).map_err(doing("creating", directory))?;
    let root = directory.join(".fmail");
    if root.exists() {
        return Err(Error::invalid(format!("{} exists", root.display())).help("give a directory without a project"));
    }
    link_tree(&shared.join(".fmail"), &root)
}

/// The directory of the shared fixture of this size, built now when it is missing or too old. Nobody may change it.
pub fn shared(messages: usize) -> Result<PathBuf> {
    shared_of(Kind::Mixed, messages)
}

fn shared_of(kind: Kind, messages: usize) -> Result<PathBuf> {
    kept(&kind.name(messages), SystemTime::UNIX_EPOCH, |directory| build_of(kind, messages, directory))
}

/// A directory that was made from a fixture of this size and is kept beside it, as long as the fixture stays. Nobody may
/// change it.
pub fn derived(what: &str, messages: usize, make: impl FnOnce(&Path) -> Result<()>) -> Result<PathBuf> {
    let complete = shared(messages)?.join(COMPLETE);
    let since =
        fs::metadata(&complete).and_then(|metadata| metadata.modified()).map_err(doing("reading", &complete))?;
    kept(&format!("{what}-{messages}"), since, |directory| {
        create_directory(directory, 0o755)?;
        make(directory)
    })
}

/// The directory with this name among the fixtures, made now when it is missing, too old, or from before `since`.
fn kept(name: &str, since: SystemTime, make: impl FnOnce(&Path) -> Result<()>) -> Result<PathBuf> {
    let fixtures = cargo::target().join("fixtures");
    fs::create_dir_all(&fixtures).map_err(doing("creating", &fixtures))?;
    // Tests run beside each other and may ask for the same fixture; the lock goes with its file.
    let lock = fixtures.join(format!("{name}.lock"));
    let held = File::create(&lock).map_err(doing("creating", &lock))?;
    held.lock().map_err(doing("locking", &lock))?;

    let directory = fixtures.join(name);
    if is_fresh(&directory.join(COMPLETE), since) {
        return Ok(directory);
    }
    match fs::remove_dir_all(&directory) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(doing("removing", &directory)(error)),
        _ => {}
    }
    make(&directory)?;
    let complete = directory.join(COMPLETE);
    fs::write(&complete, "").map_err(doing("writing", &complete))?;
    Ok(directory)
}

fn is_fresh(complete: &Path, since: SystemTime) -> bool {
    let Ok(made) = fs::metadata(complete).and_then(|metadata| metadata.modified()) else { return false };
    made >= since && made.elapsed().is_ok_and(|age| age < SPAN)
}

/// Builds a project with this many messages in a directory that holds none.
pub fn build(messages: usize, directory: &Path) -> Result<()> {
    build_of(Kind::Mixed, messages, directory)
}

fn build_of(kind: Kind, messages: usize, directory: &Path) -> Result<()> {
    let root = directory.join(".fmail");
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let now = Timestamp::from_unix(now.as_secs() as i64, 0);
    let plan = Plan::new(kind, messages, now);
    plan.create_directories(&root)?;
    plan.write_records(&root)?;

    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    let share = messages.div_ceil(workers).max(1);
    std::thread::scope(|scope| {
        let start = |worker: usize| {
            let range = (worker * share).min(messages)..((worker + 1) * share).min(messages);
            let (plan, root) = (&plan, &root);
            scope.spawn(move || range.into_iter().try_for_each(|number| plan.write_message(root, number)))
        };
        let running: Vec<_> = (0..workers).map(start).collect();
        running
            .into_iter()
            .try_for_each(|worker| worker.join().unwrap_or_else(|_| Err(Error::internal("a writer panicked"))))
    })
}

/// Which message goes where.
struct Plan {
    kind: Kind,
    topics: Vec<Target>,
    mailboxes: Vec<Target>,
    owner: Target,
    agents: Vec<AgentName>,
    now: Timestamp,
    first: MessageId,
    ticks_between: u64,
}

impl Plan {
    fn new(kind: Kind, messages: usize, now: Timestamp) -> Self {
        let target = |text: String| text.parse().expect("the names above follow the rules");
        let first = MessageId::at(now.before(SPAN));
        let ticks = MessageId::at(now).ticks() - first.ticks();
        Plan {
            kind,
            topics: TOPICS.iter().map(|name| target((*name).into())).collect(),
            mailboxes: AGENTS.iter().map(|name| target(format!("@{name}"))).collect(),
            owner: target(format!("@{OWNER}")),
            agents: AGENTS.iter().map(|name| name.parse().expect("the names above follow the rules")).collect(),
            now,
            first,
            ticks_between: (ticks / (messages as u64 + 1)).max(1),
        }
    }

    /// The message with this number; a higher number has a higher id. One in ten is a direct message.
    fn message(&self, number: usize) -> Message {
        let to = match number % 10 {
            _ if self.kind == Kind::Mailbox => &self.owner,
            9 => &self.mailboxes[number / 10 % self.mailboxes.len()],
            _ => &self.topics[(number - number / 10) % self.topics.len()],
        };
        let from = self.agents[(number * 7 + number / 10) % self.agents.len()].clone();
        let body = format!(
            "message {number}: the change to module {} is ready, {} checks passed; please look at it before the next \
             build starts",
            number % 97,
            number % 41
        );
        let mut draft = Draft::new(from, to.clone(), body);
        if number.is_multiple_of(50) {
            draft.priority = Priority::High;
        }
        let ticks = self.first.ticks() + number as u64 * self.ticks_between;
        let id = MessageId::from_ticks(ticks).unwrap_or(MessageId::MAX);
        draft.into_message(id, id.time().whole_seconds())
    }

    fn create_directories(&self, root: &Path) -> Result<()> {
        create_directory(&root.join("agents"), 0o755)?;
        create_directory(&root.join("dm"), 0o700)?;
        for target in self.topics.iter().chain(&self.mailboxes) {
            let mode = if target.agent().is_some() { 0o700 } else { 0o755 };
            create_directory(&root.join(place(target)), mode)?;
        }
        Ok(())
    }

    fn write_records(&self, root: &Path) -> Result<()> {
        let time = self.now.before(SPAN);
        write(
            &root.join("project.json"),
            format!("{{\n  \"id\": \"fixture\",\n  \"created\": \"{time}\"\n}}\n"),
            0o644,
        )?;
        for agent in &self.agents {
            let record = format!(
                "{{\n  \"name\": \"{agent}\",\n  \"first_seen\": \"{time}\",\n  \"last_seen\": \"{}\"\n}}\n",
                self.now
            );
            write(&root.join(format!("agents/{agent}.json")), record, 0o644)?;
        }
        Ok(())
    }

    fn write_message(&self, root: &Path, number: usize) -> Result<()> {
        let message = self.message(number);
        let mode = if message.to.agent().is_some() { 0o600 } else { 0o644 };
        let file = root.join(place(&message.to)).join(format!("{}.json", message.id));
        write(&file, message.to_line() + "\n", mode)
    }
}

/// SPEC.md's directory of a target.
fn place(target: &Target) -> String {
    match target.agent() {
        Some(agent) => format!("dm/{agent}"),
        None => format!("topics/{target}"),
    }
}

fn create_directory(directory: &Path, mode: u32) -> Result<()> {
    fs::DirBuilder::new().recursive(true).mode(mode).create(directory).map_err(doing("creating", directory))
}

fn write(file: &Path, content: String, mode: u32) -> Result<()> {
    OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(mode)
        .open(file)
        .and_then(|mut opened| opened.write_all(content.as_bytes()))
        .map_err(doing("writing", file))
}

/// Copies directories and links files; files are copied where the other side is another file system.
fn link_tree(from: &Path, to: &Path) -> Result<()> {
    let metadata = fs::metadata(from).map_err(doing("reading", from))?;
    fs::create_dir(to).map_err(doing("creating", to))?;
    fs::set_permissions(to, metadata.permissions()).map_err(doing("creating", to))?;
    for entry in fs::read_dir(from).map_err(doing("reading", from))? {
        let entry = entry.map_err(doing("reading", from))?;
        let (source, destination) = (entry.path(), to.join(entry.file_name()));
        if entry.file_type().map_err(doing("reading", &source))?.is_dir() {
            link_tree(&source, &destination)?;
            continue;
        }
        // Records change, and another program may change them in place: only messages are shared.
        let is_record = from.ends_with("agents") || from.ends_with(".fmail");
        if is_record || fs::hard_link(&source, &destination).is_err() {
            fs::copy(&source, &destination).map_err(doing("copying", &source))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::os::unix::fs::MetadataExt;

    use super::*;

    fn files_below(directory: &Path) -> Vec<PathBuf> {
        let entries = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
        entries.flat_map(|path| if path.is_dir() { files_below(&path) } else { vec![path] }).collect()
    }

    #[test]
    fn every_message_is_whole_and_stands_where_it_says() {
        let directory = tempfile::tempdir().unwrap();
        build(250, directory.path()).unwrap();
        let root = directory.path().join(".fmail");
        let mut ids = BTreeSet::new();
        for kind in ["topics", "dm"] {
            for file in files_below(&root.join(kind)) {
                let value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
                let message = Message::from_value(value, None, None).unwrap();
                assert_eq!(file, root.join(place(&message.to)).join(format!("{}.json", message.id)));
                assert_eq!(fs::metadata(&file).unwrap().mode() & 0o777, if kind == "dm" { 0o600 } else { 0o644 });
                ids.insert(message.id);
            }
        }
        assert_eq!(ids.len(), 250);
        assert_eq!(fs::read_dir(root.join("topics")).unwrap().count(), 20);
        assert_eq!(fs::read_dir(root.join("dm")).unwrap().count(), 10);
    }

    #[test]
    fn a_mailbox_holds_them_all() {
        let directory = tempfile::tempdir().unwrap();
        build_of(Kind::Mailbox, 30, directory.path()).unwrap();
        let root = directory.path().join(".fmail");
        assert_eq!(files_below(&root.join("dm").join(OWNER)).len(), 30);
        assert!(files_below(&root.join("topics")).is_empty());
    }

    #[test]
    fn a_copy_shares_messages_and_nothing_else() {
        let directory = tempfile::tempdir_in(cargo::target()).unwrap();
        copy(40, directory.path()).unwrap();
        let root = directory.path().join(".fmail");
        assert!(files_below(&root.join("topics")).iter().all(|file| fs::metadata(file).unwrap().nlink() == 2));
        assert_eq!(fs::metadata(root.join("project.json")).unwrap().nlink(), 1);
        assert!(copy(40, directory.path()).is_err(), "a project is never overwritten");
        assert_eq!(shared(40).unwrap(), shared(40).unwrap());
    }

    #[test]
    fn what_was_made_of_a_fixture_is_kept_and_goes_with_it() {
        let made = || derived("copy", 41, |directory| write(&directory.join("file"), String::new(), 0o644)).unwrap();
        let directory = made();
        fs::write(directory.join("mark"), "").unwrap();
        assert!(made().join("mark").exists(), "it is made once");
        fs::remove_dir_all(shared(41).unwrap()).unwrap();
        assert!(!made().join("mark").exists(), "a new fixture has other messages");
    }
}
