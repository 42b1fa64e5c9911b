//! The rules of the boundary itself: those of `fmail_plugin.h`, by their numbers.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

use fmail_abi::Calls;
use fmail_api::ErrorKind;
use fmail_conformance::{Failure, Outcome, Verdict};
use fmail_host::plugin::{Inspection, Instance, Library, Role};
use fmail_host::{PluginForm, PluginKind};
use futures::executor::block_on;

use super::OwnCase;
use crate::boundary::{Asking, Probe, Watched, as_it_is, library, plain, scribbling, wrapped};
use crate::subject::Place;
use crate::times::{Followed, Step, Times};
use crate::which::Which;

/// For plugins of every kind.
pub(super) static ANY: &[OwnCase] = &[
    OwnCase { rule: "2", name: "an_unknown_method_is_unsupported", check: unknown_method },
    OwnCase { rule: "7", name: "an_instance_can_be_made_and_ended_again", check: again },
];

/// For stores.
pub(super) static STORES: &[OwnCase] = &[
    OwnCase { rule: "1", name: "what_is_borrowed_is_copied", check: borrowed },
    OwnCase { rule: "2", name: "every_call_gets_one_answer", check: one_answer },
    OwnCase { rule: "4", name: "nonsense_is_answered_and_the_instance_goes_on", check: nonsense },
    OwnCase { rule: "5", name: "a_call_returns_within_5_ms", check: returns },
    OwnCase { rule: "5", name: "calls_may_come_from_any_thread_at_once", check: threads },
    OwnCase { rule: "6", name: "a_call_may_come_from_inside_of_an_answer", check: inside },
    OwnCase { rule: "7", name: "two_instances_keep_apart", check: apart },
    OwnCase { rule: "7", name: "an_instance_ends_with_calls_under_way", check: under_way },
];

/// How long an instance may take to end.
const GRACE: Duration = Duration::from_secs(10);

fn kind_of(place: &Place) -> Verdict<PluginKind> {
    let inspection = Inspection::of(&place.chosen.plugin)?;
    let word = inspection.manifest["kind"].as_str().unwrap_or_default().to_string();
    let kind = PluginKind::ALL.into_iter().find(|kind| kind.word() == word);
    kind.ok_or_else(|| Failure::new(format!("a plugin of the kind `{word}`")))
}

fn role_of(kind: PluginKind) -> Role {
    match kind {
        PluginKind::Store => Role::Store,
        PluginKind::Transport => Role::Server,
        PluginKind::Relay => Role::Relay,
    }
}

/// The library, or why there is none to look at.
fn in_process(place: &Place) -> Verdict<Result<Library, Outcome>> {
    let skipped = "only a library that runs in the host's process can break it";
    Ok(library(place)?.ok_or_else(|| Outcome::Skipped(skipped.into())))
}

fn closed(instance: &Instance) -> Verdict {
    let counters = block_on(instance.close(GRACE))?;
    if counters.late + counters.forged + counters.excess > 0 {
        let (late, forged, excess) = (counters.late, counters.forged, counters.excess);
        let text = format!("{late} answers came twice or too late, {forged} were to no call, {excess} items too many");
        return Err(Failure::new(text));
    }
    Ok(())
}

fn unknown_method(which: &Which, _: bool) -> Verdict<Outcome> {
    let place = Place::new(which)?;
    let kind = kind_of(&place)?;
    let instance = plain(&place, kind, role_of(kind))?;
    match block_on(instance.call("no-such-method", b"", b"{}")) {
        Err(error) if error.kind() == ErrorKind::Unsupported => {}
        Err(error) => return Err(Failure::new(format!("an unknown method is not `unsupported` (-5): {error:?}"))),
        Ok(_) => return Err(Failure::new("an unknown method succeeded")),
    }
    closed(&instance)?;
    Ok(Outcome::Passed)
}

fn again(which: &Which, _: bool) -> Verdict<Outcome> {
    let place = Place::new(which)?;
    let kind = kind_of(&place)?;
    for _ in 0..4 {
        closed(&plain(&place, kind, role_of(kind))?)?;
    }
    Ok(Outcome::Passed)
}

fn texts(count: usize) -> Vec<String> {
    (0..count).map(|number| format!("text {number} {}", "x".repeat(number * 7))).collect()
}

fn same(found: &[String], expected: &[String]) -> Verdict {
    match found == expected {
        true => Ok(()),
        false => Err(Failure::new(format!(
            "what was written does not read back\n  found    {found:?}\n  expected {expected:?}"
        ))),
    }
}

fn borrowed(which: &Which, _: bool) -> Verdict<Outcome> {
    let place = Place::new(which)?;
    let library = match in_process(&place)? {
        Ok(library) => library,
        Err(skipped) => return Ok(skipped),
    };
    let instance = Arc::new(wrapped(&place, &library, scribbling, Calls::new(), &Arc::default())?);
    let (probe, texts) = (Probe::new(instance.clone()), texts(20));
    texts.iter().try_for_each(|text| probe.write(text))?;
    same(&probe.written()?, &texts)?;
    closed(&instance)?;
    Ok(Outcome::Passed)
}

fn one_answer(which: &Which, _: bool) -> Verdict<Outcome> {
    let place = Place::new(which)?;
    let instance = Arc::new(plain(&place, PluginKind::Store, Role::Store)?);
    let (probe, texts) = (Probe::new(instance.clone()), texts(100));
    texts.iter().try_for_each(|text| probe.write(text))?;
    same(&probe.written()?, &texts)?;
    closed(&instance)?;
    Ok(Outcome::Passed)
}

fn nonsense(which: &Which, _: bool) -> Verdict<Outcome> {
    let place = Place::new(which)?;
    let library = match in_process(&place)? {
        Ok(library) => library,
        Err(skipped) => return Ok(skipped),
    };
    let instance = Arc::new(wrapped(&place, &library, as_it_is, Calls::new(), &Arc::default())?);
    for method in ["append", "read", "drop", "get", "put", "delete", "import", "health"] {
        for request in ["", " ", "nonsense", "{", "[]", "-1 -1 -1", "99999999999999999999 x", "\u{0}\u{1}"] {
            // Whatever the answer is, there is one.
            if let Err(error) = block_on(instance.call(method, b"nonsense", request.as_bytes()))
                && error.kind() == ErrorKind::Timeout
            {
                return Err(Failure::new(format!("`{method}` with {request:?} is not answered: {error}")));
            }
        }
    }
    let probe = Probe::new(instance.clone());
    probe.write("after the nonsense")?;
    match probe.written()?.last().map(String::as_str) {
        Some("after the nonsense") => {}
        other => return Err(Failure::new(format!("after nonsense, what is written reads back as {other:?}"))),
    }
    closed(&instance)?;
    Ok(Outcome::Passed)
}

/// As many calls as it takes to tell a plugin that blocks from a machine that is busy.
const CALLS: usize = 20;
/// As many instances, for the same reason.
const INSTANCES: usize = 3;

fn returns(which: &Which, _: bool) -> Verdict<Outcome> {
    let mut times = Times::default();
    for _ in 0..INSTANCES {
        let place = Place::new(which)?;
        let library = match in_process(&place)? {
            Ok(library) => library,
            Err(skipped) => return Ok(skipped),
        };
        let watched: Arc<Watched> = Arc::default();
        let instance = Arc::new(wrapped(&place, &library, scribbling, Calls::new(), &watched)?);
        let (say, steps) = channel();
        watched.tell_steps(say.clone());
        // A call that never returns holds up this thread, which nobody waits for.
        std::thread::spawn(move || say.send(Step::Finished(asked_often(instance))));
        if times.follow(&steps)? == Followed::ToTheEnd {
            break;
        }
    }
    times.judge()?;
    Ok(Outcome::Passed)
}

/// Calls what writes and what reads, one call after the other.
fn asked_often(instance: Arc<Instance>) -> Verdict {
    let probe = Probe::new(instance.clone());
    texts(CALLS).iter().try_for_each(|text| probe.write(text))?;
    let (method, request) = probe.question();
    for _ in 0..CALLS {
        block_on(instance.call(method, b"", &request))?;
    }
    closed(&instance)
}

fn threads(which: &Which, _: bool) -> Verdict<Outcome> {
    const THREADS: usize = 6;
    const EACH: usize = 20;
    let place = Place::new(which)?;
    let instance = Arc::new(plain(&place, PluginKind::Store, Role::Store)?);
    let probe = Probe::new(instance.clone());
    std::thread::scope(|scope| {
        let write = |thread: usize| (0..EACH).try_for_each(|number| probe.write(&format!("{thread}/{number}")));
        let threads: Vec<_> = (0..THREADS).map(|thread| scope.spawn(move || write(thread))).collect();
        let results = threads.into_iter().map(|thread| thread.join().map_err(|_| Failure::new("a thread panicked")));
        results.collect::<Verdict<Vec<_>>>()?.into_iter().try_for_each(|result| result.map_err(Failure::from))
    })?;
    let written: BTreeSet<String> = probe.written()?.into_iter().collect();
    let expected: BTreeSet<String> =
        (0..THREADS).flat_map(|thread| (0..EACH).map(move |number| format!("{thread}/{number}"))).collect();
    if written != expected {
        let lost: Vec<&String> = expected.difference(&written).collect();
        return Err(Failure::new(format!("written at once by {THREADS} threads and gone: {lost:?}")));
    }
    closed(&instance)?;
    Ok(Outcome::Passed)
}

fn inside(which: &Which, _: bool) -> Verdict<Outcome> {
    let place = Place::new(which)?;
    let library = match in_process(&place)? {
        Ok(library) => library,
        Err(skipped) => return Ok(skipped),
    };
    let watched: Arc<Watched> = Arc::default();
    let calls = Calls::new().observed(Box::new(Asking(watched.clone())));
    let instance = Arc::new(wrapped(&place, &library, as_it_is, calls, &watched)?);
    let probe = Probe::new(instance.clone());
    probe.write("before")?;
    watched.ask_inside(probe.question());
    for number in 0..10 {
        probe.write(&format!("text {number}"))?;
    }
    let inner = std::mem::take(&mut *watched.inner.lock().unwrap_or_else(std::sync::PoisonError::into_inner));
    if inner.is_empty() {
        return Err(Failure::new("the suite could not call from inside of an answer"));
    }
    for call in inner {
        let answer = block_on(call);
        if answer.status != 0 {
            let body = String::from_utf8_lossy(&answer.body).into_owned();
            return Err(Failure::new(format!("a call from inside of an answer failed: {} {body}", answer.status)));
        }
    }
    Ok(Outcome::Passed)
}

fn apart(which: &Which, _: bool) -> Verdict<Outcome> {
    let (here, there) = (Place::new(which)?, Place::new(which)?);
    let open = |place| plain(place, PluginKind::Store, Role::Store).map(Arc::new);
    let (one, two) = (open(&here)?, open(&there)?);
    let (first, second) = (Probe::new(one.clone()), Probe::new(two.clone()));
    first.write("first")?;
    second.write("second")?;
    same(&first.written()?, &["first".into()])?;
    same(&second.written()?, &["second".into()])?;
    closed(&one)?;
    second.write("third")?;
    same(&second.written()?, &["second".into(), "third".into()])?;
    closed(&two)?;
    Ok(Outcome::Passed)
}

fn under_way(which: &Which, _: bool) -> Verdict<Outcome> {
    let place = Place::new(which)?;
    let instance = Arc::new(plain(&place, PluginKind::Store, Role::Store)?);
    let probe = Probe::new(instance.clone());
    probe.write("before")?;
    let (method, request) = probe.question();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            // Each ends with an answer, or because the instance was closed.
            scope.spawn(|| while block_on(instance.call(method, b"", &request)).is_ok() {});
        }
        std::thread::yield_now();
        block_on(instance.close(GRACE)).map(drop)
    })?;
    let form = place.chosen.plugin.checked_file()?.map_or(PluginForm::Program, |file| file.form);
    match block_on(instance.call(method, b"", &request)) {
        Err(_) => Ok(Outcome::Passed),
        Ok(_) => Err(Failure::new(format!("the {} answers after its end", form.word()))),
    }
}
