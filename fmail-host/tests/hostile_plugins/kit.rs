//! Building a plugin, configuring it, and looking at what comes of it.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

use fmail_api::{Error, Result};
use fmail_host::plugin::{Instance, Plugin, Role, Surroundings, Upward};
use fmail_host::{PluginKind, PluginSettings, Settings};
use futures::StreamExt;
use futures::executor::block_on;

use crate::common::Place;

/// Long enough for everything that ends at all, on a loaded machine.
pub const GRACE: Duration = Duration::from_secs(20);

/// A plugin in a directory of its own, with a section in the user's configuration.
pub struct Hostile {
    pub place: Place,
    pub file: PathBuf,
    name: &'static str,
}

impl Hostile {
    /// Builds `tests/plugins/hostile/<source>.c` and configures it under the name `name`, which is what the log calls it.
    pub fn new(source: &str, name: &'static str) -> Self {
        Hostile::with(source, name, "")
    }

    /// As [`Hostile::new`], with further lines of the section.
    pub fn with(source: &str, name: &'static str, lines: &str) -> Self {
        let place = Place::new();
        let file = place.path("libfmail_hostile.so");
        std::fs::copy(built(source), &file).unwrap();
        let hostile = Hostile { place, file, name };
        hostile.configure(lines);
        hostile
    }

    /// A file that is no library, or not ours to choose.
    pub fn file(bytes: &[u8], name: &'static str) -> Self {
        let place = Place::new();
        let file = place.path("libfmail_hostile.so");
        std::fs::write(&file, bytes).unwrap();
        let hostile = Hostile { place, file, name };
        hostile.configure("");
        hostile
    }

    /// Writes the section, with further lines.
    pub fn configure(&self, lines: &str) {
        let text = format!("# a comment\n[mail.plugin.{}]\nfile = {:?}\n{lines}", self.name, self.file);
        self.place.write("home/.config/fmail/config.toml", &text);
    }

    pub fn settings(&self) -> PluginSettings {
        let settings = Settings::load(&self.place.environment("app", &[]), None, &[]).unwrap();
        settings.plugin(&self.name.parse().unwrap())
    }

    pub fn open(&self) -> Result<Plugin> {
        Plugin::load(&self.settings(), PluginKind::Store)
    }

    pub fn start(&self) -> Result<Instance> {
        self.start_with(None)
    }

    pub fn start_with(&self, upward: Option<Upward>) -> Result<Instance> {
        listen();
        block_on(self.open()?.instance(&self.surroundings(), upward))
    }

    pub fn surroundings(&self) -> Surroundings {
        Surroundings {
            role: Role::Store,
            project: None,
            node: "here".into(),
            data_dir: self.place.path("data"),
            max_message_bytes: None,
        }
    }

    /// Asserts that an error names the file, the line of the configuration, and all of this: what was expected and got, and
    /// what to do.
    #[track_caller]
    pub fn refused<T>(&self, result: Result<T>, parts: &[&str]) -> Error {
        let Err(error) = result else { panic!("this was accepted: {parts:?}") };
        let whole = format!("{error}\nhelp: {}", error.help_text().expect("there is always something to do"));
        let (file, line) = (self.file.display().to_string(), "config.toml:3".to_string());
        let key = format!("mail.plugin.{}.file", self.name);
        for part in [file, line, key].iter().map(String::as_str).chain(parts.iter().copied()) {
            assert!(whole.contains(part), "`{part}` is not in: {whole}");
        }
        good_goes_on();
        error
    }
}

/// Asserts that an error is of the plugin and says all of this.
#[track_caller]
pub fn says(error: &Error, parts: &[&str]) {
    let whole = format!("{error}\nhelp: {}", error.help_text().unwrap_or_default());
    for part in parts {
        assert!(whole.contains(part), "`{part}` is not in: {whole}");
    }
}

pub fn echo(instance: &Instance, text: &str) -> Result<String> {
    call(instance, "echo", text)
}

pub fn call(instance: &Instance, method: &'static str, text: &str) -> Result<String> {
    block_on(instance.call(method, b"", text.as_bytes())).map(|body| String::from_utf8(body).unwrap())
}

/// What a stream delivers after its head.
pub fn count(instance: &Instance) -> Result<Vec<Result<String>>> {
    block_on(async {
        let (head, items) = instance.stream("count", b"", b"").await?;
        assert_eq!(&*head, b"{}");
        Ok(items.map(|item| item.map(|body| String::from_utf8(body).unwrap())).collect().await)
    })
}

pub fn close(instance: &Instance) -> Result<fmail_abi::Counters> {
    block_on(instance.close(GRACE))
}

/// A plugin that keeps the rules still works in this process, whatever others have done: one that was there before, and a
/// new instance of it.
#[track_caller]
pub fn good_goes_on() {
    static GOOD: OnceLock<(Hostile, Instance)> = OnceLock::new();
    let (good, before) = GOOD.get_or_init(|| {
        let good = Hostile::new("good", "good");
        let instance = good.start().unwrap();
        (good, instance)
    });
    let new = good.start().unwrap();
    for instance in [before, &new] {
        assert_eq!(echo(instance, "still there").unwrap(), "still there");
        let items: Vec<String> = count(instance).unwrap().into_iter().map(Result::unwrap).collect();
        assert_eq!(items, ["1", "2", "3", "4", "5"]);
    }
    assert_eq!(close(&new).unwrap(), fmail_abi::Counters::default());
}

/// The library that a file of `tests/plugins/hostile` makes, which is built when it has changed.
fn built(source: &str) -> PathBuf {
    build(&root().join("tests/plugins/hostile").join(source).with_extension("c"), &root().join("plugins/sdk/include"))
}

pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

/// Builds a library from one file of C, unless that was done from the same text before. Several tests may want the same
/// one at once.
pub fn build(source: &Path, include: &Path) -> PathBuf {
    static BUILDING: Mutex<()> = Mutex::new(());
    let _building = BUILDING.lock().unwrap_or_else(PoisonError::into_inner);
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("plugins");
    std::fs::create_dir_all(&directory).unwrap();
    let stem = source.file_stem().unwrap().to_str().unwrap();
    let mut text = DefaultHasher::new();
    for file in [source, &source.with_file_name("base.h"), &include.join("fmail_plugin.h")] {
        std::fs::read(file).unwrap_or_default().hash(&mut text);
    }
    let library = directory.join(format!("{stem}-{:016x}.so", text.finish()));
    if library.exists() {
        return library;
    }
    let unfinished = library.with_extension(std::process::id().to_string());
    let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".into());
    let output = Command::new(&compiler)
        .args(["-std=c99", "-Wall", "-Wextra", "-Werror", "-O1", "-shared", "-fPIC", "-fvisibility=hidden", "-pthread"])
        .arg("-I")
        .arg(include)
        .arg("-o")
        .args([&unfinished, &source.to_path_buf()])
        .output()
        .unwrap_or_else(|error| panic!("these tests need a C compiler, and `{compiler}` cannot be run: {error}"));
    assert!(output.status.success(), "{}: {}", source.display(), String::from_utf8_lossy(&output.stderr));
    std::fs::rename(&unfinished, &library).unwrap();
    library
}

static LOG: Mutex<Vec<u8>> = Mutex::new(Vec::new());

struct ToLog;

impl Write for ToLog {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        LOG.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// From now on the log of this process is kept.
fn listen() {
    let _ = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::DEBUG)
        .with_ansi(false)
        .without_time()
        .with_writer(|| ToLog)
        .try_init();
}

/// What was logged about this plugin.
pub fn logged(name: &str) -> Vec<String> {
    let log = String::from_utf8(LOG.lock().unwrap().clone()).unwrap();
    log.lines().filter(|line| line.contains(&format!("plugin=\"{name}\""))).map(str::to_string).collect()
}
