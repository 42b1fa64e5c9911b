//! A store over a script in a directory of its own.
#![allow(dead_code)]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use fmail_api::{AgentName, Appended, Draft, Event, Folder, Mail, Mailbox, Query, Result, Store};
use fmail_core::{LayerOptions, layered};
use fmail_exec::ExecOptions;
use futures::StreamExt;
use futures::executor::block_on;
use tempfile::TempDir;

/// A directory with a script's mail and a store's data.
pub struct Bench {
    pub directory: TempDir,
}

impl Bench {
    pub fn new() -> Bench {
        Bench { directory: tempfile::tempdir().unwrap() }
    }

    /// The options for a script. Machines that run tests are slow: only tests of the deadline shorten it.
    pub fn options(&self, command: Vec<String>) -> ExecOptions {
        ExecOptions {
            timeout: Duration::from_secs(60),
            poll: Duration::from_millis(200),
            ..ExecOptions::new(command, self.directory.path().join("data"))
        }
    }

    /// The example of Gas City's contract, with its mail in this directory.
    pub fn gc(&self) -> Vec<String> {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/exec-gc/mail.py");
        self.python(&script)
    }

    /// A script in Python, which finds its mail in this directory.
    pub fn python(&self, script: &Path) -> Vec<String> {
        let mail = format!("MAIL_FILE={}", self.directory.path().join("mail.json").display());
        ["/usr/bin/env".into(), mail, python().into(), "-IS".into(), script.display().to_string()].into()
    }

    /// The script in `docs/plugins/exec.md`, as a reader would copy it.
    pub fn documented(&self) -> PathBuf {
        let document = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/plugins/exec.md");
        let document = fs::read_to_string(document).unwrap();
        let (_, script) = document.split_once("```python\n").expect("the document has a script");
        let (script, _) = script.split_once("\n```").expect("the script has an end");
        let path = self.directory.path().join("mail.py");
        fs::write(&path, script).unwrap();
        path
    }

    /// A script that this test has written.
    pub fn script(&self, text: &str) -> Vec<String> {
        vec![self.write(text, 0o755).display().to_string()]
    }

    pub fn write(&self, text: &str, mode: u32) -> PathBuf {
        let path = self.directory.path().join("script");
        // A new file each time: one that runs must not change.
        let _ = fs::remove_file(&path);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        path
    }

    /// The store as a host has it, with all its layers.
    pub fn open(&self, command: Vec<String>) -> Arc<dyn Store> {
        open(self.options(command))
    }
}

pub fn open(options: ExecOptions) -> Arc<dyn Store> {
    layered(Arc::new(fmail_exec::open(options).unwrap()), &LayerOptions::default())
}

/// The interpreter itself: what stands in PATH may be a wrapper that takes longer than Python.
fn python() -> &'static str {
    static PYTHON: OnceLock<String> = OnceLock::new();
    PYTHON.get_or_init(|| {
        let found = Command::new("python3").args(["-c", "import sys; print(sys.executable)"]).output();
        String::from_utf8(found.expect("python3 is needed by these tests").stdout).unwrap().trim().to_string()
    })
}

pub fn agent(name: &str) -> AgentName {
    name.parse().unwrap()
}

pub fn draft(from: &str, to: &str, body: &str) -> Draft {
    Draft::new(agent(from), format!("@{to}").parse().unwrap(), body)
}

pub fn send(store: &dyn Store, from: &str, to: &str, body: &str) -> Result<Appended> {
    block_on(store.append(draft(from, to, body)))
}

pub fn mailbox(store: &dyn Store) -> &dyn Mailbox {
    store.mailbox().expect("the exec store has a mailbox")
}

pub fn inbox(store: &dyn Store, name: &str, folder: Folder) -> Result<Vec<Mail>> {
    block_on(mailbox(store).inbox(&agent(name), folder))
}

pub fn bodies(mail: &[Mail]) -> Vec<&str> {
    mail.iter().map(|mail| mail.message.body.as_str().unwrap()).collect()
}

/// The messages of a scan, without notices.
pub fn scan(store: &dyn Store, query: Query) -> Result<Vec<Arc<fmail_api::Message>>> {
    let events: Vec<Result<Event>> = block_on(async { Ok(store.scan(query).await?.messages.collect().await) })?;
    let message = |event: Result<Event>| match event {
        Ok(Event::Message(delivery)) => Some(Ok(delivery.message.clone())),
        Ok(_) => None,
        Err(error) => Some(Err(error)),
    };
    events.into_iter().filter_map(message).collect()
}
