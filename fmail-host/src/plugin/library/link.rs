//! The host's side of one instance: what `fm_host` points to.
//!
//! It is never freed: a plugin may say something at any time until the process ends (rule 7). What it holds besides a few
//! hundred bytes is let go of when the instance has ended.
#![allow(unsafe_code)]

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock};

use fmail_abi::layout::{ABI_MINOR, FmHost};
use fmail_abi::{Calls, Served, status};

use super::checks::Functions;
use super::{callbacks, carrier, log};
use crate::plugin::gate::Gate;
use crate::plugin::lane::Lane;

/// So much that a plugin asks before it is ready is kept until then.
const MAX_EARLY: usize = 1024;

/// The host's side of one instance.
#[repr(C)]
pub struct Link {
    /// First, so that the address of the one is that of the other.
    host: FmHost,
    pub name: String,
    pub functions: Functions,
    pub calls: Arc<Calls>,
    pub gate: Gate,
    pub lane: Lane,
    /// What `create` returned.
    instance: AtomicPtr<c_void>,
    /// The number of the creation for as long as it is under way, and how far it is.
    creating: AtomicU64,
    birth: Mutex<Birth>,
    /// The number of the destruction once it is called; whether it was answered.
    destroying: AtomicU64,
    gone: AtomicBool,
    /// Runs what the plugin asks, if anybody does.
    served: Mutex<Option<Arc<Served>>>,
    /// What the plugin asked before it was ready; none once it is.
    early: Mutex<Option<Vec<Asked<'static>>>>,
}

// SAFETY: the pointers in `host` are the link's own address and functions; all else is Send and Sync by itself.
unsafe impl Send for Link {}
// SAFETY: as above; nothing writes to `host` after it was made.
unsafe impl Sync for Link {}

/// How far the creation is: it is over when the function has returned and was answered, in either order.
#[derive(Default)]
struct Birth {
    returned: bool,
    answer: Option<(i32, Vec<u8>)>,
    /// Further answers.
    extra: u32,
}

/// Something that a plugin asks of the host.
pub enum Asked<'a> {
    Call { id: u64, method: Cow<'a, [u8]>, context: Cow<'a, [u8]>, request: Cow<'a, [u8]> },
    Pull { id: u64, credits: u32 },
    Cancel { id: u64 },
}

impl Asked<'_> {
    fn kept(self) -> Asked<'static> {
        let keep = |bytes: Cow<'_, [u8]>| Cow::Owned(bytes.into_owned());
        match self {
            Asked::Call { id, method, context, request } => {
                Asked::Call { id, method: keep(method), context: keep(context), request: keep(request) }
            }
            Asked::Pull { id, credits } => Asked::Pull { id, credits },
            Asked::Cancel { id } => Asked::Cancel { id },
        }
    }
}

/// The addresses that were given out as `fm_host`. A plugin that hands back another one is not listened to, and nothing is
/// read from there.
fn given() -> &'static RwLock<BTreeSet<usize>> {
    static GIVEN: OnceLock<RwLock<BTreeSet<usize>>> = OnceLock::new();
    GIVEN.get_or_init(RwLock::default)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Link {
    /// Makes one, for ever.
    pub fn new(name: &str, functions: Functions, calls: Arc<Calls>) -> &'static Link {
        let plugin = name.to_string();
        let link = Box::leak(Box::new(Link {
            host: host(),
            name: name.into(),
            functions,
            calls,
            gate: Gate::new(move |function| log::warn_of_blocking(&plugin, function)),
            lane: Lane::new(format!("plugin {name}")),
            instance: AtomicPtr::new(null_mut()),
            creating: AtomicU64::new(0),
            birth: Mutex::default(),
            destroying: AtomicU64::new(0),
            gone: AtomicBool::new(false),
            served: Mutex::new(None),
            early: Mutex::new(Some(Vec::new())),
        }));
        link.host.data = std::ptr::from_mut(link).cast();
        given().write().unwrap_or_else(PoisonError::into_inner).insert(link.address() as usize);
        link
    }

    /// What the plugin gets.
    pub fn address(&self) -> *const FmHost {
        std::ptr::from_ref(self).cast()
    }

    /// The link that a plugin means; none if the address is none that was given out.
    pub fn of(host: *const FmHost) -> Option<&'static Link> {
        let known = given().read().unwrap_or_else(PoisonError::into_inner).contains(&(host as usize));
        // SAFETY: the address is that of a link which was leaked, and whose first field is the host.
        known.then(|| unsafe { &*host.cast::<Link>() })
    }

    /// What the plugin's functions get as `self`.
    pub fn instance(&self) -> *mut c_void {
        self.instance.load(Ordering::Acquire)
    }

    /// Who runs what the plugin asks.
    pub fn serve(&self, served: Arc<Served>) {
        *lock(&self.served) = Some(served);
    }

    /// Answers whatever the plugin has asked, and resolves when nothing is owed to it any more. What it asks from now on is
    /// answered with `CANCELLED`.
    pub async fn stop_serving(&self) {
        let served = lock(&self.served).clone();
        if let Some(served) = served {
            served.close().await;
        }
    }

    /// Forgets what an instance asked that never became ready.
    pub fn forget(&self) {
        *lock(&self.early) = None;
        *lock(&self.served) = None;
    }

    /// `create` is about to be called, with this number.
    pub fn begin_creation(&self, id: u64) {
        self.creating.store(id, Ordering::Release);
    }

    /// `create` has returned.
    pub fn returned(&'static self, instance: *mut c_void) {
        self.instance.store(instance, Ordering::Release);
        lock(&self.birth).returned = true;
        self.finish_creation();
    }

    /// `destroy` is about to be called, with this number.
    pub fn begin_destruction(&self, id: u64) {
        self.destroying.store(id, Ordering::Release);
    }

    /// Whether the plugin was told to end and has not said that it did.
    pub fn is_ending(&self) -> bool {
        self.destroying.load(Ordering::Acquire) != 0 && !self.gone.load(Ordering::Acquire)
    }

    /// The plugin answers.
    pub fn done(&'static self, id: u64, status: i32, body: &[u8]) {
        if id != 0 && id == self.creating.load(Ordering::Acquire) {
            let mut birth = lock(&self.birth);
            match birth.answer {
                None => birth.answer = Some((status, body.into())),
                Some(_) => birth.extra = birth.extra.saturating_add(1),
            }
            drop(birth);
            return self.finish_creation();
        }
        let ends = id != 0 && id == self.destroying.load(Ordering::Acquire);
        if ends {
            self.gone.store(true, Ordering::Release);
        }
        self.calls.done(id, status, body);
        if ends {
            self.forget();
        }
    }

    /// Passes the answer to the creation on when the function has returned too: until then nobody knows what the other
    /// functions are to get as `self`.
    fn finish_creation(&'static self) {
        let mut birth = lock(&self.birth);
        if !birth.returned {
            return;
        }
        let Some((status, body)) = birth.answer.take() else { return };
        let extra = std::mem::take(&mut birth.extra);
        let id = self.creating.swap(0, Ordering::AcqRel);
        drop(birth);
        if status == status::OK && self.gate.open() {
            self.serve_early();
        }
        self.calls.done(id, status, &body);
        // Each counts as an answer too many.
        (0..extra.min(1000)).for_each(|_| self.calls.done(id, status, &[]));
    }

    /// Runs what was asked before the instance was ready.
    fn serve_early(&'static self) {
        loop {
            let mut early = lock(&self.early);
            let asked = early.as_mut().map(std::mem::take).unwrap_or_default();
            if asked.is_empty() {
                *early = None;
                return;
            }
            drop(early);
            asked.into_iter().for_each(|asked| self.run(asked));
        }
    }

    /// The plugin asks something. What it asks before it is ready waits until it is: the answer could not be given.
    pub fn ask(&'static self, asked: Asked<'_>) {
        let mut early = lock(&self.early);
        match early.as_mut() {
            None => {
                drop(early);
                self.run(asked);
            }
            Some(waiting) if waiting.len() < MAX_EARLY => waiting.push(asked.kept()),
            Some(_) => {
                drop(early);
                let text = format!("asked more than {MAX_EARLY} things before it was ready; this one is not answered");
                log::say(&self.name, 2, b"", text.as_bytes(), b"");
            }
        }
    }

    fn run(&'static self, asked: Asked<'_>) {
        let served = lock(&self.served).clone();
        match (asked, served) {
            (Asked::Call { id, method, context, request }, Some(served)) => {
                served.call(id, &method, &context, &request)
            }
            (Asked::Call { id, .. }, None) => carrier::refuse(self, id),
            (Asked::Pull { id, credits }, Some(served)) => served.pull(id, credits),
            (Asked::Cancel { id }, Some(served)) => served.cancel(id),
            // What was refused was answered.
            (Asked::Pull { .. } | Asked::Cancel { .. }, None) => {}
        }
    }
}

fn host() -> FmHost {
    FmHost {
        size: size_of::<FmHost>() as u32,
        abi_minor: ABI_MINOR,
        data: null_mut(),
        log_level: log::level(),
        reserved: 0,
        done: callbacks::done,
        item: callbacks::item,
        log: callbacks::log,
        call: callbacks::call,
        pull: callbacks::pull,
        cancel: callbacks::cancel,
        extension: callbacks::extension,
    }
}
