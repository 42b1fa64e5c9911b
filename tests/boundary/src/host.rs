//! The smallest host: the two structs of the header, and the tables behind them.
#![allow(unsafe_code)]

use std::ffi::{CStr, c_char, c_void};
use std::mem::size_of;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use fmail_abi::layout::{ABI_MINOR, FmBytes, FmHost, FmPlugin};
use fmail_abi::{Answer, Call, Calls, Items, Peer, Served, Service, Spawner};
use fmail_api::Result;
use serde_json::Value;

/// One instance of a plugin.
pub struct LittleHost {
    side: &'static Side,
    peer: Arc<dyn Peer>,
}

/// Something that a plugin said to the operator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Logged {
    /// See `enum fm_level`.
    pub level: u32,
    /// Which part of the plugin said it.
    pub target: String,
    /// What it said.
    pub message: String,
    /// JSON, or empty.
    pub fields: String,
}

/// What the functions of our struct find behind its pointer. Never freed, like the structs (rule 7).
struct Side {
    calls: Arc<Calls>,
    upward: OnceLock<Arc<Served>>,
    logged: Mutex<Vec<Logged>>,
    /// How often the plugin has answered.
    answers: AtomicU64,
    plugin: &'static FmPlugin,
    instance: AtomicPtr<c_void>,
}

impl LittleHost {
    /// Makes an instance and waits until it is ready. `upward` is what the plugin can ask for.
    pub async fn start(
        plugin: &'static FmPlugin,
        envelope: &Value,
        upward: Option<(Arc<dyn Service>, Arc<dyn Spawner>)>,
    ) -> Result<LittleHost> {
        let (host, result) = LittleHost::try_start(plugin, envelope, upward).await;
        result.map(|()| host)
    }

    /// As [`LittleHost::start`], but keeps the host, and so what was logged, when no instance was made.
    pub async fn try_start(
        plugin: &'static FmPlugin,
        envelope: &Value,
        upward: Option<(Arc<dyn Service>, Arc<dyn Spawner>)>,
    ) -> (LittleHost, Result<()>) {
        let side: &'static Side = Box::leak(Box::new(Side {
            calls: Arc::new(Calls::new()),
            upward: OnceLock::new(),
            logged: Mutex::default(),
            answers: AtomicU64::new(0),
            plugin,
            instance: AtomicPtr::default(),
        }));
        let peer: Arc<dyn Peer> = Arc::new(Plugin(side));
        if let Some((service, spawner)) = upward {
            side.upward.get_or_init(|| Served::new(peer.clone(), service, spawner));
        }
        let table: &'static FmHost = Box::leak(Box::new(table(side)));
        let envelope = envelope.to_string();
        let created = side.calls.begin(&peer, |id| {
            let create = plugin.create.expect("every plugin has it");
            side.instance.store(create(table, id, FmBytes::lend(envelope.as_bytes())), Ordering::SeqCst);
        });
        let result = created.await.into_result().map(drop);
        (LittleHost { side, peer }, result)
    }

    /// What the plugin says about itself.
    pub fn manifest(plugin: &FmPlugin) -> Value {
        // SAFETY: the manifest is a static text that a zero byte ends.
        let text = unsafe { CStr::from_ptr(plugin.manifest) };
        serde_json::from_slice(text.to_bytes()).expect("the manifest is JSON")
    }

    /// Makes a call.
    pub fn call(&self, method: &str, request: &[u8]) -> Call {
        self.side.calls.call(&self.peer, method, b"", request)
    }

    /// Makes a call that streams.
    pub fn stream(&self, method: &str, context: &[u8], request: &[u8]) -> Items {
        self.side.calls.stream(&self.peer, method, context, request)
    }

    /// The table of our calls.
    pub fn calls(&self) -> &Calls {
        &self.side.calls
    }

    /// How often the plugin has answered, the making and the end of the instance too.
    pub fn answers(&self) -> u64 {
        self.side.answers.load(Ordering::SeqCst)
    }

    /// What the plugin has said.
    pub fn logged(&self) -> Vec<Logged> {
        self.side.logged.lock().unwrap().clone()
    }

    /// Ends the instance. Calls that are made later still reach the plugin, as those of a host that breaks rule 7.
    pub async fn end(&self) -> Answer {
        let destroy = self.side.plugin.destroy.expect("every plugin has it");
        self.side.calls.begin(&self.peer, |id| destroy(self.side.instance.load(Ordering::SeqCst), id)).await
    }
}

/// The functions of the plugin.
struct Plugin(&'static Side);

impl Plugin {
    fn instance(&self) -> *mut c_void {
        self.0.instance.load(Ordering::SeqCst)
    }
}

impl Peer for Plugin {
    fn call(&self, id: u64, method: &str, context: &[u8], request: &[u8]) {
        let lend = FmBytes::lend;
        let call = self.0.plugin.call.expect("every plugin has it");
        call(self.instance(), id, lend(method.as_bytes()), lend(context), lend(request));
    }

    fn pull(&self, id: u64, credits: u32) {
        self.0.plugin.pull.expect("every plugin has it")(self.instance(), id, credits);
    }

    fn cancel(&self, id: u64) {
        self.0.plugin.cancel.expect("every plugin has it")(self.instance(), id);
    }

    fn done(&self, id: u64, status: i32, body: &[u8]) {
        self.0.plugin.done.expect("the SDK has it")(self.instance(), id, status, FmBytes::lend(body));
    }

    fn item(&self, id: u64, body: &[u8]) -> bool {
        self.0.plugin.item.expect("the SDK has it")(self.instance(), id, FmBytes::lend(body)) == 0
    }
}

fn table(side: &'static Side) -> FmHost {
    FmHost {
        size: size_of::<FmHost>() as u32,
        abi_minor: ABI_MINOR,
        data: std::ptr::from_ref(side).cast_mut().cast(),
        log_level: 3,
        reserved: 0,
        done,
        item,
        log,
        call,
        pull,
        cancel,
        extension,
    }
}

fn side(host: *const FmHost) -> &'static Side {
    // SAFETY: the plugin hands back the struct of `table`, which is leaked, as is what its `data` points to.
    unsafe { &*(*host).data.cast_const().cast::<Side>() }
}

fn text(bytes: FmBytes) -> String {
    // SAFETY: borrowed for the time of the function that calls this (rule 1).
    String::from_utf8_lossy(unsafe { bytes.borrowed() }).into_owned()
}

extern "C" fn done(host: *const FmHost, id: u64, status: i32, body: FmBytes) {
    let side = side(host);
    side.answers.fetch_add(1, Ordering::SeqCst);
    // SAFETY: borrowed for the time of this function (rule 1).
    side.calls.done(id, status, unsafe { body.borrowed() });
}

extern "C" fn item(host: *const FmHost, id: u64, body: FmBytes) -> i32 {
    // SAFETY: borrowed for the time of this function (rule 1).
    i32::from(!side(host).calls.item(id, unsafe { body.borrowed() }))
}

extern "C" fn log(host: *const FmHost, level: u32, target: FmBytes, message: FmBytes, fields: FmBytes) {
    let logged = Logged { level, target: text(target), message: text(message), fields: text(fields) };
    if level == 1 {
        // Also what a test that fails says: the hook of the SDK has taken it from the standard library.
        eprintln!("{}: {}", logged.target, logged.message);
    }
    side(host).logged.lock().unwrap().push(logged);
}

extern "C" fn call(host: *const FmHost, id: u64, method: FmBytes, context: FmBytes, request: FmBytes) {
    // SAFETY: all three are borrowed for the time of this function (rule 1).
    let (method, context, request) = unsafe { (method.borrowed(), context.borrowed(), request.borrowed()) };
    let side = side(host);
    match side.upward.get() {
        Some(served) => served.call(id, method, context, request),
        None => Plugin(side).done(id, fmail_abi::status::UNSUPPORTED, b"this host serves nothing"),
    }
}

extern "C" fn pull(host: *const FmHost, id: u64, credits: u32) {
    side(host).upward.get().into_iter().for_each(|served| served.pull(id, credits));
}

extern "C" fn cancel(host: *const FmHost, id: u64) {
    side(host).upward.get().into_iter().for_each(|served| served.cancel(id));
}

extern "C" fn extension(_: *const FmHost, _: *const c_char) -> *const c_void {
    std::ptr::null()
}
