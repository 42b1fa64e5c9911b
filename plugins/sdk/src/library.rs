//! The functions that a host calls when it has loaded the library.
//!
//! `self` is a pointer to an [`Instance`] that is never freed, so that a host that breaks rule 7 of the header finds a dead
//! instance and not freed memory. No panic leaves a function.
#![allow(unsafe_code)]

use std::ffi::{c_char, c_void};
use std::mem::size_of;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use fmail_abi::layout::{ABI_MAJOR, ABI_MINOR, FmBytes, FmHost, FmPlugin, MAGIC};
use fmail_abi::{Level, Peer};

use crate::instance::{Instance, Link, Plugin};

/// What the library exports.
#[doc(hidden)]
pub const fn table<P: Plugin>() -> FmPlugin {
    FmPlugin {
        magic: MAGIC,
        abi_major: ABI_MAJOR,
        abi_minor: ABI_MINOR,
        size: size_of::<FmPlugin>() as u32,
        reserved: 0,
        manifest: P::TEXT.as_ptr().cast::<c_char>(),
        create: Some(create::<P>),
        call: Some(call),
        pull: Some(pull),
        cancel: Some(cancel),
        destroy: Some(destroy),
        done: Some(done),
        item: Some(item),
        extension: None,
    }
}

/// Runs an entry. A panic in it is a defect of the SDK, or of a destructor of the plugin; the hook has reported it.
fn guarded<T>(otherwise: T, entry: impl FnOnce() -> T) -> T {
    catch_unwind(AssertUnwindSafe(entry)).unwrap_or(otherwise)
}

/// The instance that the host means.
fn instance(this: *mut c_void) -> Option<&'static Instance> {
    // SAFETY: the host hands back what `create` returned: null, or an instance that is never freed.
    unsafe { this.cast::<Instance>().as_ref() }
}

extern "C" fn create<P: Plugin>(host: *const FmHost, call: u64, envelope: FmBytes) -> *mut c_void {
    guarded(std::ptr::null_mut(), || {
        // SAFETY: the struct stays valid until the process ends (rule 7). Its first field says how large it is, and a
        // smaller one than ours has not even a `done` that could be called.
        let Some(host) = (unsafe { host.as_ref() }).filter(|host| host.size as usize >= size_of::<FmHost>()) else {
            return std::ptr::null_mut();
        };
        // SAFETY: borrowed for the time of this function (rule 1).
        let envelope = unsafe { envelope.borrowed() };
        let instance = Instance::create::<P>(Arc::new(InProcess(host)), call, envelope);
        Arc::into_raw(instance).cast_mut().cast()
    })
}

extern "C" fn call(this: *mut c_void, call: u64, method: FmBytes, context: FmBytes, request: FmBytes) {
    guarded((), || {
        // SAFETY: all three are borrowed for the time of this function (rule 1).
        let (method, context, request) = unsafe { (method.borrowed(), context.borrowed(), request.borrowed()) };
        instance(this).into_iter().for_each(|instance| instance.call(call, method, context, request));
    });
}

extern "C" fn pull(this: *mut c_void, call: u64, credits: u32) {
    guarded((), || instance(this).into_iter().for_each(|instance| instance.pull(call, credits)));
}

extern "C" fn cancel(this: *mut c_void, call: u64) {
    guarded((), || instance(this).into_iter().for_each(|instance| instance.cancel(call)));
}

extern "C" fn destroy(this: *mut c_void, call: u64) {
    guarded((), || {
        if this.is_null() {
            return;
        }
        let this = this.cast_const().cast::<Instance>();
        // SAFETY: `create` made the pointer with `Arc::into_raw` and nobody gives that reference back, so counting one
        // more and taking that one is sound however often it is done.
        let instance = unsafe {
            Arc::increment_strong_count(this);
            Arc::from_raw(this)
        };
        instance.destroy(call);
    });
}

extern "C" fn done(this: *mut c_void, call: u64, status: i32, body: FmBytes) {
    guarded((), || {
        // SAFETY: borrowed for the time of this function (rule 1).
        let body = unsafe { body.borrowed() };
        instance(this).into_iter().for_each(|instance| instance.calls().done(call, status, body));
    });
}

extern "C" fn item(this: *mut c_void, call: u64, body: FmBytes) -> i32 {
    guarded(1, || {
        // SAFETY: borrowed for the time of this function (rule 1).
        let body = unsafe { body.borrowed() };
        i32::from(!instance(this).is_some_and(|instance| instance.calls().item(call, body)))
    })
}

/// The host that has loaded us.
struct InProcess(&'static FmHost);

// SAFETY: the struct is never written after `create`, its functions may be called from any thread (rule 5), and the `data`
// pointer in it is the host's own, which we only hand back.
unsafe impl Send for InProcess {}
// SAFETY: as above.
unsafe impl Sync for InProcess {}

impl Peer for InProcess {
    fn call(&self, id: u64, method: &str, context: &[u8], request: &[u8]) {
        let lend = FmBytes::lend;
        (self.0.call)(self.0, id, lend(method.as_bytes()), lend(context), lend(request));
    }

    fn pull(&self, id: u64, credits: u32) {
        (self.0.pull)(self.0, id, credits);
    }

    fn cancel(&self, id: u64) {
        (self.0.cancel)(self.0, id);
    }

    fn done(&self, id: u64, status: i32, body: &[u8]) {
        (self.0.done)(self.0, id, status, FmBytes::lend(body));
    }

    fn item(&self, id: u64, body: &[u8]) -> bool {
        (self.0.item)(self.0, id, FmBytes::lend(body)) == 0
    }
}

impl Link for InProcess {
    fn level(&self) -> u32 {
        self.0.log_level
    }

    fn log(&self, level: Level, target: &str, message: &str, fields: &[u8]) {
        let lend = FmBytes::lend;
        (self.0.log)(self.0, level as u32, lend(target.as_bytes()), lend(message.as_bytes()), lend(fields));
    }
}
