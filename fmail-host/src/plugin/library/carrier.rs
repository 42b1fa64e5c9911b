//! Calling the functions of a plugin.
//!
//! Each goes through the gate. A plugin that keeps rule 5 is called on the caller's own thread, which costs next to
//! nothing; one that was seen to block is called from the lane. `create` and `destroy` have a thread of their own each.

use std::sync::Arc;

use fmail_abi::layout::FmBytes;
use fmail_abi::{Calls, Peer, Served, status};
use futures::executor::block_on;

use super::callbacks::is_asking;
use super::checks::Functions;
use super::link::Link;
use super::log;
use crate::plugin::gate::{Entry, Phase};
use crate::plugin::{Carrier, Upward};

const CLOSED: &str = "the plugin's instance is closed";
const CROWDED: &str = "the plugin blocks, and too many calls wait for it already";
const NO_THREAD: &str = "there is no thread to be had for the plugin";

/// Carries calls to one instance of a library's plugin.
pub struct LibraryCarrier(&'static Link);

impl LibraryCarrier {
    /// One for a new instance.
    pub fn new(name: &str, functions: Functions, calls: Arc<Calls>, upward: Option<Upward>) -> Arc<Self> {
        let carrier = Arc::new(LibraryCarrier(Link::new(name, functions, calls)));
        if let Some(Upward { service, spawner }) = upward {
            carrier.0.serve(Served::new(carrier.clone(), service, spawner));
        }
        carrier
    }
}

impl Peer for LibraryCarrier {
    fn call(&self, id: u64, method: &str, context: &[u8], request: &[u8]) {
        let link = self.0;
        match link.gate.enter_here("call") {
            Entry::Here(_inside) => enter_call(link, id, method, context, request),
            Entry::Shut => link.calls.done(id, status::CANCELLED, CLOSED.as_bytes()),
            Entry::Elsewhere => {
                let (method, context, request) = (method.to_string(), context.to_vec(), request.to_vec());
                let work = move || match link.gate.enter("call") {
                    Some(_inside) => enter_call(link, id, &method, &context, &request),
                    None => link.calls.done(id, status::CANCELLED, CLOSED.as_bytes()),
                };
                if !link.lane.run(ours(id), Box::new(work)) {
                    link.calls.done(id, status::UNAVAILABLE, CROWDED.as_bytes());
                }
            }
        }
    }

    fn pull(&self, id: u64, credits: u32) {
        let link = self.0;
        self.hint("pull", id, move || (link.functions.pull)(link.instance(), id, credits));
    }

    fn cancel(&self, id: u64) {
        let link = self.0;
        self.hint("cancel", id, move || (link.functions.cancel)(link.instance(), id));
    }

    fn done(&self, id: u64, status: i32, body: &[u8]) {
        answer(self.0, id, status, body);
    }

    fn item(&self, id: u64, body: &[u8]) -> bool {
        let link = self.0;
        let Some(item) = link.functions.item else { return false };
        match link.gate.enter_here("item") {
            Entry::Here(_inside) => item(link.instance(), id, FmBytes::lend(body)) == 0,
            Entry::Shut => false,
            Entry::Elsewhere => {
                let body = body.to_vec();
                // Whether it wants no more is only known later; then it says so with `cancel`.
                let work = move || {
                    if let Some(_inside) = link.gate.enter("item") {
                        item(link.instance(), id, FmBytes::lend(&body));
                    }
                };
                link.lane.run(theirs(id), Box::new(work))
            }
        }
    }
}

impl LibraryCarrier {
    /// Calls a function that takes only numbers.
    fn hint(&self, function: &'static str, id: u64, run: impl FnOnce() + Send + 'static) {
        let link = self.0;
        match link.gate.enter_here(function) {
            Entry::Here(_inside) => run(),
            Entry::Shut => {}
            Entry::Elsewhere => {
                let work = move || {
                    if let Some(_inside) = link.gate.enter(function) {
                        run();
                    }
                };
                // Without its credit a stream would wait for ever, so its call ends.
                if !link.lane.run(ours(id), Box::new(work)) && function == "pull" {
                    link.calls.done(id, status::UNAVAILABLE, CROWDED.as_bytes());
                }
            }
        }
    }

    /// Runs something on a thread of its own; the call ends if there is none.
    fn apart(&self, id: u64, run: impl FnOnce() + Send + 'static) {
        let thread = std::thread::Builder::new().name(format!("plugin {}", self.0.name));
        if thread.spawn(run).is_err() {
            self.0.calls.done(id, status::UNAVAILABLE, NO_THREAD.as_bytes());
        }
    }
}

impl Carrier for LibraryCarrier {
    fn create(&self, id: u64, envelope: &[u8]) {
        let (link, envelope) = (self.0, envelope.to_vec());
        link.begin_creation(id);
        self.apart(id, move || {
            let inside = link.gate.enter_alone("create");
            let instance = (link.functions.create)(link.address(), id, FmBytes::lend(&envelope));
            drop(inside);
            link.returned(instance);
        });
    }

    fn destroy(&self, id: u64) {
        let link = self.0;
        if link.gate.phase() == Phase::Waiting && link.gate.seal() == Phase::Waiting {
            return link.forget();
        }
        self.apart(id, move || {
            // What the plugin has asked is answered while answers can still enter.
            block_on(link.stop_serving());
            link.gate.seal();
            link.gate.wait_until_empty();
            link.begin_destruction(id);
            let _inside = link.gate.enter_alone("destroy");
            (link.functions.destroy)(link.instance(), id);
        });
    }

    fn stuck(&self) -> Option<String> {
        let stuck = self.0.gate.stuck();
        let shown =
            |(function, age): &(&str, std::time::Duration)| format!("`{function}` for {:.1} s", age.as_secs_f64());
        let list: Vec<String> = stuck.iter().take(5).map(shown).collect();
        let more = if stuck.len() > list.len() { " and more" } else { "" };
        (!list.is_empty()).then(|| format!("has not returned from {}{more}", list.join(", ")))
    }
}

fn enter_call(link: &Link, id: u64, method: &str, context: &[u8], request: &[u8]) {
    let (context, request) = (FmBytes::lend(context), FmBytes::lend(request));
    (link.functions.call)(link.instance(), id, FmBytes::lend(method.as_bytes()), context, request);
}

/// Answers something that the plugin has asked.
pub fn answer(link: &'static Link, id: u64, status: i32, body: &[u8]) {
    let Some(done) = link.functions.done else {
        return log::say(&link.name, 2, b"", b"calls the host, but has no function `done` for the answer", b"");
    };
    match link.gate.enter_here("done") {
        Entry::Here(_inside) => done(link.instance(), id, status, FmBytes::lend(body)),
        // Between the call of `destroy` and its answer the instance is alive, and surely so while it calls us.
        Entry::Shut if link.is_ending() && is_asking() => done(link.instance(), id, status, FmBytes::lend(body)),
        Entry::Shut => {}
        Entry::Elsewhere => {
            let body = body.to_vec();
            let work = move || {
                if let Some(_inside) = link.gate.enter("done") {
                    done(link.instance(), id, status, FmBytes::lend(&body));
                }
            };
            if !link.lane.run(theirs(id), Box::new(work)) {
                log::say(&link.name, 1, b"", format!("the answer to its call {id} is lost: {CROWDED}").as_bytes(), b"");
            }
        }
    }
}

/// Refuses something that the plugin has asked and nobody serves.
pub fn refuse(link: &'static Link, id: u64) {
    match link.gate.phase() {
        Phase::Sealed => answer(link, id, status::CANCELLED, CLOSED.as_bytes()),
        _ => answer(link, id, status::UNSUPPORTED, b"the host serves no calls of this plugin"),
    }
}

/// The calls of the two directions have each their own numbers.
fn ours(id: u64) -> u64 {
    id.wrapping_mul(2)
}

fn theirs(id: u64) -> u64 {
    id.wrapping_mul(2).wrapping_add(1)
}
