//! A library in a process of its own: what the host says in lines becomes functions, what the plugin calls becomes lines.
//!
//! This runs in the child. Numbers pass through untouched. One thread reads, so what the host says arrives in its order; a
//! plugin that blocks in a function holds up only its own process, and the host notices that nobody reads. Nothing here
//! keeps the process alive against the plugin: a crash, an abort or an exit is the end of the child, and the host tells it
//! from there.
#![allow(unsafe_code)]

use std::collections::HashMap;
use std::ffi::{c_char, c_void};
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::ptr::{from_ref, null, null_mut};
use std::sync::{Mutex, MutexGuard, PoisonError};

use fmail_abi::layout::{ABI_MINOR, FmBytes, FmHost};
use fmail_abi::{Level, Verb, status};
use fmail_api::{Error, Result};
use serde_json::Value;

use super::Library;
use super::checks::{self, Functions};
use crate::plugin::{PluginForm, check_file};

/// What `item` returns to say that nobody wants more.
const STOP: i32 = 1;

/// Serves the library as a program: reads the host's lines from standard input until they end, and answers on standard
/// output. What the plugin itself prints goes to standard error.
pub fn serve_library(path: &Path) -> Result<()> {
    let output = take_output().map_err(|error| Error::io("cannot use the standard output", &error))?;
    let library = Library::load(&check_file(path, Some(PluginForm::Library), None)?)?;
    let mut input = Input(BufReader::with_capacity(64 * 1024, std::io::stdin().lock()));
    let hello = match input.next()? {
        Some(Verb::Hello { body }) => body,
        Some(_) => return Err(Error::invalid("the host's first line is not `hello`")),
        None => return Ok(()),
    };
    let bridge: &'static Bridge = Box::leak(Box::new(Bridge::new(output, wanted_level(&hello))));
    let body = checks::manifest(library.functions.manifest)?.into_bytes();
    bridge.say(&Verb::Hello { body: body.into() });
    let mut plugin = Plugin { functions: library.functions, instance: null_mut(), bridge };
    while let Some(verb) = input.next()? {
        plugin.heed(verb)?;
    }
    Ok(())
}

/// What the host says.
struct Input<R>(R);

impl<R: BufRead> Input<R> {
    /// The next line; none when the host ends the conversation.
    fn next(&mut self) -> Result<Option<Verb<'static>>> {
        let mut line = Vec::new();
        let read = self.0.read_until(b'\n', &mut line);
        match read.map_err(|error| Error::io("cannot read the host's lines", &error))? {
            0 => Ok(None),
            _ => Verb::from_bytes(&line).map(Some),
        }
    }
}

/// The level that the host wants to hear, as its greeting says.
fn wanted_level(hello: &[u8]) -> u32 {
    let hello: Value = serde_json::from_slice(hello).unwrap_or_default();
    let level = hello["log_level"].as_u64().unwrap_or(Level::Info as u64);
    level.min(Level::Trace as u64) as u32
}

/// Takes standard output away from the plugin: what it prints must not get between the lines.
fn take_output() -> std::io::Result<File> {
    let output = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdout(), 3)?;
    rustix::stdio::dup2_stdout(rustix::stdio::stderr())?;
    Ok(output.into())
}

/// The plugin, as the reading thread calls it.
struct Plugin {
    functions: Functions,
    /// What `create` returned.
    instance: *mut c_void,
    bridge: &'static Bridge,
}

impl Plugin {
    fn heed(&mut self, verb: Verb<'static>) -> Result<()> {
        let Plugin { functions, instance, bridge } = self;
        let instance = *instance;
        match verb {
            Verb::Create { id, envelope } => {
                self.instance = (functions.create)(bridge.address(), id, FmBytes::lend(&envelope));
            }
            Verb::Destroy { id } => (functions.destroy)(instance, id),
            Verb::Call { id, method, context, request } => {
                bridge.streams().insert(id, 0);
                let (context, request) = (FmBytes::lend(&context), FmBytes::lend(&request));
                (functions.call)(instance, id, FmBytes::lend(method.as_bytes()), context, request);
            }
            Verb::Pull { id, credits } => {
                if let Some(credit) = bridge.streams().get_mut(&id) {
                    *credit = credit.saturating_add(credits);
                }
                (functions.pull)(instance, id, credits);
            }
            Verb::Cancel { id } => {
                bridge.streams().remove(&id);
                (functions.cancel)(instance, id);
            }
            Verb::Done { id, status, body } => {
                if let Some(done) = functions.done {
                    done(instance, id, status, FmBytes::lend(&body));
                }
            }
            Verb::Item { id, body } => {
                let wants = functions.item.is_some_and(|item| item(instance, id, FmBytes::lend(&body)) == 0);
                if !wants {
                    bridge.say(&Verb::Cancel { id });
                }
            }
            Verb::Hello { .. } | Verb::Log { .. } => return Err(Error::invalid("`hello` and `log` come from plugins")),
        }
        Ok(())
    }
}

/// What `fm_host` points to. Never freed: the plugin may say something until the process ends.
#[repr(C)]
struct Bridge {
    /// First, so that the address of the one is that of the other.
    host: FmHost,
    output: Mutex<File>,
    /// The credit of the calls under way. One that is not in here wants nothing more.
    streams: Mutex<HashMap<u64, u32>>,
}

// SAFETY: `host` holds functions and a null pointer and is not changed once it is shared; all else is Send and Sync by itself.
unsafe impl Send for Bridge {}
// SAFETY: as above.
unsafe impl Sync for Bridge {}

impl Bridge {
    fn new(output: File, log_level: u32) -> Self {
        let host = FmHost {
            size: size_of::<FmHost>() as u32,
            abi_minor: ABI_MINOR,
            data: null_mut(),
            log_level,
            reserved: 0,
            done,
            item,
            log: say_to_operator,
            call,
            pull,
            cancel,
            extension,
        };
        Bridge { host, output: Mutex::new(output), streams: Mutex::default() }
    }

    fn address(&'static self) -> *const FmHost {
        from_ref(self).cast()
    }

    fn streams(&self) -> MutexGuard<'_, HashMap<u64, u32>> {
        self.streams.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Prints a line. The host always reads, so this waits for nothing but its turn.
    fn say(&self, verb: &Verb<'_>) {
        let line = verb.to_line().or_else(|error| unsayable(verb, &error).to_line());
        let Ok(line) = line else { return };
        let mut line = line.into_bytes();
        line.push(b'\n');
        let written = self.output.lock().unwrap_or_else(PoisonError::into_inner).write_all(&line);
        if written.is_err() {
            // The host is gone, and with it the purpose of this process. The plugin's threads run, so nothing of its own
            // may be torn down under them.
            // SAFETY: ends the process at once; nothing of ours is run or touched.
            unsafe { libc::_exit(0) };
        }
    }
}

/// What is said in the place of something that is no text: how a call ends then.
fn unsayable(verb: &Verb<'_>, error: &Error) -> Verb<'static> {
    let body = format!("expected UTF-8 text from the plugin: {error}").into_bytes().into();
    match verb {
        Verb::Done { id, .. } | Verb::Item { id, .. } => Verb::Done { id: *id, status: status::INTERNAL, body },
        // What cannot be asked is still answered: the host finds this sentence where a request should be, and refuses it.
        Verb::Call { id, method, .. } => {
            let method = method.clone().into_owned().into();
            Verb::Call { id: *id, method, context: Vec::new().into(), request: body }
        }
        _ => Verb::Log {
            level: Level::Error,
            target: "bridge".into(),
            message: error.to_string().into(),
            fields: Vec::new().into(),
        },
    }
}

/// The bridge that the plugin got, and the bytes that it passes; a plugin that hands back another address has lost its mind,
/// and its process ends.
fn bridge(host: *const FmHost) -> &'static Bridge {
    if host.is_null() {
        std::process::abort();
    }
    // SAFETY: the plugin hands back the address that it got in `create`, as the header asks: that of a `Bridge` that is never
    // freed. If it does not, only this process suffers, which is what it is for.
    unsafe { &*host.cast::<Bridge>() }
}

/// The bytes that were passed.
fn lent<'a>(bytes: FmBytes) -> &'a [u8] {
    // SAFETY: rule 1: they can be read until the function returns that they were passed to. Every caller is such a function
    // and keeps nothing of them.
    unsafe { bytes.borrowed() }
}

extern "C" fn done(host: *const FmHost, id: u64, status: i32, body: FmBytes) {
    let bridge = bridge(host);
    bridge.streams().remove(&id);
    bridge.say(&Verb::Done { id, status, body: lent(body).into() });
}

extern "C" fn item(host: *const FmHost, id: u64, body: FmBytes) -> i32 {
    let bridge = bridge(host);
    match bridge.streams().get_mut(&id) {
        Some(credit @ 1..) => *credit -= 1,
        _ => return STOP,
    }
    bridge.say(&Verb::Item { id, body: lent(body).into() });
    0
}

extern "C" fn say_to_operator(host: *const FmHost, level: u32, target: FmBytes, message: FmBytes, fields: FmBytes) {
    let bridge = bridge(host);
    if level == 0 || level > bridge.host.log_level {
        return;
    }
    let text = |bytes| String::from_utf8_lossy(lent(bytes)).into_owned().into();
    let (target, message) = (text(target), text(message));
    bridge.say(&Verb::Log { level: Level::from_number(level), target, message, fields: lent(fields).into() });
}

extern "C" fn call(host: *const FmHost, id: u64, method: FmBytes, context: FmBytes, request: FmBytes) {
    let method = String::from_utf8_lossy(lent(method));
    let (context, request) = (lent(context).into(), lent(request).into());
    bridge(host).say(&Verb::Call { id, method, context, request });
}

extern "C" fn pull(host: *const FmHost, id: u64, credits: u32) {
    bridge(host).say(&Verb::Pull { id, credits });
}

extern "C" fn cancel(host: *const FmHost, id: u64) {
    bridge(host).say(&Verb::Cancel { id });
}

extern "C" fn extension(_: *const FmHost, _: *const c_char) -> *const c_void {
    null()
}
