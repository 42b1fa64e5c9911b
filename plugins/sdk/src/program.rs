//! The same plugin as a program: the lines of docs/plugins/abi.md on standard input and output.

use std::borrow::Cow;
use std::io::{BufRead, Write};
use std::process::ExitCode;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};

use fmail_abi::{Level, Peer, Verb, status};

use crate::instance::{Instance, Link, Plugin};

/// Runs the plugin as a program, until the host ends the instance or closes our standard input.
///
/// ```ignore
/// fmail_plugin::log_store! { name: "notes", open: Notes::open }
///
/// fn main() -> std::process::ExitCode {
///     fmail_plugin::run_as_program::<FmailPlugin>()
/// }
/// ```
pub fn run_as_program<P: Plugin>() -> ExitCode {
    let (ended, end) = channel();
    let lines = Arc::new(Lines { out: Mutex::new(std::io::stdout()), destroying: Mutex::new(None), ended });
    let mut instance = None;
    for line in std::io::stdin().lock().split(b'\n') {
        let Ok(line) = line else { break };
        match Verb::from_bytes(&line) {
            Ok(Verb::Destroy { id }) => {
                finish(&lines, instance.as_ref(), id);
                // Closing the input would end us as well, so whoever answers tells us.
                let _ = end.recv();
                return ExitCode::SUCCESS;
            }
            Ok(verb) => hear::<P>(&lines, &mut instance, verb),
            Err(error) => lines.log(Level::Error, "fmail_plugin", &format!("{error:?}"), b""),
        }
    }
    if instance.is_some() {
        // The host is gone; the plugin still closes what it has open.
        finish(&lines, instance.as_ref(), 0);
        let _ = end.recv();
    }
    ExitCode::SUCCESS
}

fn finish(lines: &Arc<Lines>, instance: Option<&Arc<Instance>>, id: u64) {
    *lines.destroying.lock().unwrap_or_else(PoisonError::into_inner) = Some(id);
    match instance {
        Some(instance) => instance.destroy(id),
        None => lines.done(id, status::OK, b""),
    }
}

fn hear<P: Plugin>(lines: &Arc<Lines>, instance: &mut Option<Arc<Instance>>, verb: Verb<'_>) {
    match (verb, &*instance) {
        (Verb::Hello { .. }, _) => {
            lines.say(&Verb::Hello { body: Cow::Borrowed(P::TEXT.strip_suffix(b"\0").unwrap_or(P::TEXT)) });
        }
        (Verb::Create { id, envelope }, None) => {
            *instance = Some(Instance::create::<P>(lines.clone(), id, &envelope));
        }
        (Verb::Create { id, .. }, Some(_)) => {
            lines.done(id, status::UNSUPPORTED, b"this program has one instance; start it again for another");
        }
        (Verb::Call { id, method, context, request }, Some(instance)) => {
            instance.call(id, method.as_bytes(), &context, &request);
        }
        (Verb::Call { id, .. }, None) => lines.done(id, status::CANCELLED, b"there is no instance yet"),
        (Verb::Pull { id, credits }, Some(instance)) => instance.pull(id, credits),
        (Verb::Cancel { id }, Some(instance)) => instance.cancel(id),
        (Verb::Done { id, status, body }, Some(instance)) => instance.calls().done(id, status, &body),
        (Verb::Item { id, body }, Some(instance)) => drop(instance.calls().item(id, &body)),
        // What concerns no call of ours has no effect, as everywhere; `destroy` is seen before it comes here.
        _ => {}
    }
}

/// The host at the other end of our standard input and output.
struct Lines {
    out: Mutex<std::io::Stdout>,
    /// The call that ends the instance.
    destroying: Mutex<Option<u64>>,
    ended: Sender<()>,
}

impl Lines {
    fn say(&self, verb: &Verb<'_>) {
        let Ok(mut line) = verb.to_line() else {
            return self.log(Level::Error, "fmail_plugin", "something that is not UTF-8 was not sent", b"");
        };
        line.push('\n');
        let mut out = self.out.lock().unwrap_or_else(PoisonError::into_inner);
        // A host that no longer reads has closed our input as well, and that ends us.
        let _ = out.write_all(line.as_bytes()).and_then(|()| out.flush());
    }
}

impl Peer for Lines {
    fn call(&self, id: u64, method: &str, context: &[u8], request: &[u8]) {
        let (method, context, request) = (method.into(), context.into(), request.into());
        self.say(&Verb::Call { id, method, context, request });
    }

    fn pull(&self, id: u64, credits: u32) {
        self.say(&Verb::Pull { id, credits });
    }

    fn cancel(&self, id: u64) {
        self.say(&Verb::Cancel { id });
    }

    fn done(&self, id: u64, status: i32, body: &[u8]) {
        let verb = Verb::Done { id, status, body: body.into() };
        if verb.to_line().is_ok() {
            self.say(&verb);
        } else {
            let body = Cow::Borrowed(&b"the answer is not UTF-8"[..]);
            self.say(&Verb::Done { id, status: status::INTERNAL, body });
        }
        if *self.destroying.lock().unwrap_or_else(PoisonError::into_inner) == Some(id) {
            // Only a program that has ended already does not hear it.
            let _ = self.ended.send(());
        }
    }

    fn item(&self, id: u64, body: &[u8]) -> bool {
        self.say(&Verb::Item { id, body: body.into() });
        true
    }
}

impl Link for Lines {
    /// The host drops what it does not want.
    fn level(&self) -> u32 {
        Level::Info as u32
    }

    fn log(&self, level: Level, target: &str, message: &str, fields: &[u8]) {
        self.say(&Verb::Log { level, target: target.into(), message: message.into(), fields: fields.into() });
    }
}
