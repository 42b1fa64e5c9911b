//! The gate, in every order that threads can run in: no one is inside when the instance is destroyed, no one enters after
//! that, and whoever waits for the door is woken.

use std::sync::atomic::Ordering;

use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, AtomicUsize};
use loom::thread;

/// What the gate is built on here.
mod sync {
    pub use loom::sync::{Condvar, Mutex};
}

#[path = "../src/plugin/moment.rs"]
mod moment;

#[path = "../src/plugin/gate.rs"]
#[allow(dead_code, reason = "the model needs only a part of it")]
mod gate;

use gate::{Entry, Gate, Phase};

/// An instance that notices whether it is used when it must not be.
struct Instance {
    gate: Gate,
    ready: AtomicBool,
    gone: AtomicBool,
    entered: AtomicUsize,
}

impl Instance {
    fn new() -> Arc<Self> {
        let (ready, gone) = (AtomicBool::new(false), AtomicBool::new(false));
        Arc::new(Instance { gate: Gate::new(|_| {}), ready, gone, entered: AtomicUsize::new(0) })
    }

    /// What a function of the plugin does: it uses its instance.
    fn used(&self) {
        assert!(self.ready.load(Ordering::Relaxed), "entered before it was ready");
        assert!(!self.gone.load(Ordering::Relaxed), "entered after it was destroyed");
        self.entered.fetch_add(1, Ordering::Relaxed);
    }

    fn call(&self) {
        if let Entry::Here(_inside) = self.gate.enter_here("call") {
            self.used();
        }
    }

    fn call_from_inside(&self) {
        if let Some(_inside) = self.gate.enter("call") {
            self.used();
            self.call();
            assert!(!self.gone.load(Ordering::Relaxed), "destroyed while someone was inside");
        }
    }

    fn open(&self) -> bool {
        self.ready.store(true, Ordering::Relaxed);
        self.gate.open()
    }

    fn destroy(&self) {
        if self.gate.seal() == Phase::Open {
            self.gate.wait_until_empty();
            self.gone.store(true, Ordering::Relaxed);
        }
    }
}

/// Every order with at most so many interruptions; most mistakes need one or two.
fn model(check: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(check);
}

#[test]
fn nobody_is_inside_when_the_instance_is_destroyed() {
    model(|| {
        let instance = Instance::new();
        assert!(instance.open());
        let (one, two) = (instance.clone(), instance.clone());
        let one = thread::spawn(move || one.call_from_inside());
        let two = thread::spawn(move || two.call());
        instance.destroy();
        one.join().unwrap();
        two.join().unwrap();
        assert!(instance.gone.load(Ordering::Relaxed));
        assert!(matches!(instance.gate.enter_here("call"), Entry::Shut));
    });
}

#[test]
fn an_instance_that_was_given_up_while_it_was_made_is_never_entered() {
    model(|| {
        let instance = Instance::new();
        let (maker, caller) = (instance.clone(), instance.clone());
        let maker = thread::spawn(move || maker.open());
        let caller = thread::spawn(move || caller.call());
        let was = instance.gate.seal();
        let opened = maker.join().unwrap();
        caller.join().unwrap();
        assert_eq!(opened, was == Phase::Open, "either it was opened before, or never");
        assert!(opened || instance.entered.load(Ordering::Relaxed) == 0);
        assert_eq!(instance.gate.phase(), Phase::Sealed);
    });
}
