//! The functions of `fm_host`: what a plugin may call, at any time and with anything.
//!
//! None of them believes what it gets: an address that is no `fm_host` of ours is ignored, a null pointer or bytes that
//! are no text end the call that they were meant for. None of them unwinds.
#![allow(unsafe_code)]

use std::cell::Cell;
use std::ffi::{c_char, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};

use fmail_abi::layout::{FmBytes, FmHost};
use fmail_abi::{Answer, status};
use fmail_api::Error;

use super::link::{Asked, Link};
use super::log as operator;
use crate::plugin::failure::DEFECT;

/// `fm_host.done`.
pub extern "C" fn done(host: *const FmHost, call: u64, status: i32, body: FmBytes) {
    guarded(host, (), |link| match text("answer", body) {
        Ok(body) => link.done(call, status, body),
        Err(defect) => link.done(call, defect.status, &defect.body),
    });
}

/// `fm_host.item`.
pub extern "C" fn item(host: *const FmHost, call: u64, body: FmBytes) -> i32 {
    const STOP: i32 = 1;
    guarded(host, STOP, |link| match text("item", body) {
        Ok(body) if link.calls.item(call, body) => 0,
        Ok(_) => STOP,
        Err(defect) => {
            link.done(call, defect.status, &defect.body);
            STOP
        }
    })
}

/// `fm_host.log`.
pub extern "C" fn log(host: *const FmHost, level: u32, target: FmBytes, message: FmBytes, fields: FmBytes) {
    guarded(host, (), |link| {
        // SAFETY: rule 1: what is passed can be read until this function returns. What is null is empty.
        let (target, message, fields) = unsafe { (target.borrowed(), message.borrowed(), fields.borrowed()) };
        operator::say(&link.name, level, target, message, fields);
    });
}

/// `fm_host.call`.
pub extern "C" fn call(host: *const FmHost, call: u64, method: FmBytes, context: FmBytes, request: FmBytes) {
    guarded(host, (), |link| {
        let _asking = Asking::begin();
        match (text("method", method), text("context", context), text("request", request)) {
            (Ok(method), Ok(context), Ok(request)) => {
                let (method, context, request) = (method.into(), context.into(), request.into());
                link.ask(Asked::Call { id: call, method, context, request });
            }
            (Err(defect), ..) | (_, Err(defect), _) | (.., Err(defect)) => {
                super::carrier::answer(link, call, status::INVALID, &defect.body);
            }
        }
    });
}

/// `fm_host.pull`.
pub extern "C" fn pull(host: *const FmHost, call: u64, credits: u32) {
    guarded(host, (), |link| link.ask(Asked::Pull { id: call, credits }));
}

/// `fm_host.cancel`.
pub extern "C" fn cancel(host: *const FmHost, call: u64) {
    guarded(host, (), |link| link.ask(Asked::Cancel { id: call }));
}

/// `fm_host.extension`: there are none yet.
pub extern "C" fn extension(_host: *const FmHost, _id: *const c_char) -> *const c_void {
    std::ptr::null()
}

/// Runs something for the instance that is meant. A panic of ours stays here, since it must not reach the plugin's code.
fn guarded<T>(host: *const FmHost, otherwise: T, run: impl FnOnce(&'static Link) -> T) -> T {
    let run = || Link::of(host).map(run);
    match catch_unwind(AssertUnwindSafe(run)) {
        Ok(Some(result)) => result,
        Ok(None) => otherwise,
        Err(_) => {
            // Even a subscriber of the log may be what panicked.
            let _ = catch_unwind(|| tracing::error!(target: "plugin", "a function that a plugin called has panicked"));
            otherwise
        }
    }
}

/// The text that was passed, or what the call ends with instead.
fn text<'a>(what: &str, bytes: FmBytes) -> Result<&'a [u8], Answer> {
    let defect = |found: String| {
        let error = Error::internal(format!("expected the {what} as UTF-8 text, got {found}"));
        Answer::from(error.help(DEFECT))
    };
    if bytes.len > 0 && bytes.ptr.is_null() {
        return Err(defect(format!("a null pointer with a length of {}", bytes.len)));
    }
    if bytes.len > isize::MAX as usize {
        return Err(defect(format!("a length of {}", bytes.len)));
    }
    // SAFETY: rule 1: what is passed can be read until the function returns that it was passed to. Every caller is such a
    // function and keeps nothing of it.
    let bytes = unsafe { bytes.borrowed() };
    match std::str::from_utf8(bytes) {
        Ok(text) => Ok(text.as_bytes()),
        Err(error) => Err(defect(format!("something else at byte {}", error.valid_up_to()))),
    }
}

thread_local! {
    /// How many times this thread is inside of [`call`].
    static ASKING: Cell<u32> = const { Cell::new(0) };
}

/// A plugin is calling the host on this thread.
struct Asking;

impl Asking {
    fn begin() -> Asking {
        ASKING.set(ASKING.get() + 1);
        Asking
    }
}

impl Drop for Asking {
    fn drop(&mut self) {
        ASKING.set(ASKING.get() - 1);
    }
}

/// Whether a plugin is calling the host on this thread, so that its instance is alive until that returns.
pub fn is_asking() -> bool {
    ASKING.get() > 0
}
