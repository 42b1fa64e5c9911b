//! The rules of relays. What a relay does is between hosts, and the suite is one: without `--pair` only its life can be
//! seen. A relay that keeps the projects of one host in step is given two of them, and a third that misbehaves.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use fmail_api::{Client, Draft, Error, MessageId, Relay, RelayStatus, Result, Selection, Store, Timestamp};
use fmail_conformance::{Failure, Outcome, Verdict};
use fmail_core::Operations;
use fmail_host::PluginKind;
use fmail_host::plugin::{Plugin, PluginRelay, Role};
use futures::stream::BoxStream;
use futures::{FutureExt, StreamExt};
use tokio::runtime::Runtime;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::OwnCase;
use crate::hosted::{Hosted, Misbehaviour, OnRuntime, runtime, send, someone, texts};
use crate::subject::Place;
use crate::which::Which;

pub(super) static CASES: &[OwnCase] = &[
    OwnCase { rule: "Y", name: "a_relay_runs_until_the_shutdown", check: life },
    OwnCase { rule: "Y1", name: "every_message_reaches_the_other_side_once", check: once },
    OwnCase { rule: "Y2", name: "a_message_keeps_its_identity", check: identity },
    OwnCase { rule: "Y3", name: "an_interruption_loses_nothing", check: interrupted },
    OwnCase { rule: "Y4", name: "what_one_side_has_swept_is_not_brought_back", check: swept },
    OwnCase { rule: "Y5", name: "a_peer_that_fails_disturbs_nobody_and_is_shown", check: fails },
    OwnCase { rule: "Y5", name: "a_peer_that_never_answers_disturbs_nobody", check: hangs },
];

const SOON: Duration = Duration::from_secs(20);
/// A relay that would deliver something twice has done so by then, on a machine that is not overloaded.
const QUIET: Duration = Duration::from_millis(300);

struct Bench {
    runtime: Runtime,
    place: Place,
}

struct Running {
    end: oneshot::Sender<()>,
    task: JoinHandle<Result<()>>,
    status: BoxStream<'static, RelayStatus>,
}

impl Bench {
    fn new(which: &Which) -> Verdict<Bench> {
        Ok(Bench { runtime: runtime()?, place: Place::new(which)? })
    }

    fn run(&self, host: &Arc<Hosted>) -> Verdict<Running> {
        let plugin = Plugin::load(&self.place.chosen.plugin, PluginKind::Relay)?;
        let data_dir = self.place.surroundings(Role::Relay)?.data_dir;
        let spawner = Arc::new(OnRuntime(self.runtime.handle().clone()));
        let relay = PluginRelay::new(plugin, data_dir, spawner);
        let (end, ended) = oneshot::channel();
        let host = host.clone();
        let status = relay.status();
        let task = self.runtime.spawn(async move { relay.run(host, ended.map(drop).boxed()).await });
        Ok(Running { end, task, status })
    }

    fn wait<T>(&self, what: &str, future: impl Future<Output = T>) -> Verdict<T> {
        let waited = self.runtime.block_on(async { timeout(SOON, future).await });
        waited.map_err(|_| Failure::new(format!("{what}: nothing happened within {SOON:?}")))
    }

    fn finish(&self, running: Running) -> Verdict {
        let _ = running.end.send(());
        let ended = self.wait("the end after the shutdown", running.task)?;
        Ok(ended.map_err(|error| Failure::new(format!("running panicked: {error}")))??)
    }

    /// Waits until a project has so many messages in a topic, and gives them when they have stayed so for a while.
    fn settled(&self, project: &Operations, count: usize) -> Verdict<Vec<String>> {
        let start = Instant::now();
        loop {
            let found = self.wait("a log", texts(project, "alice", "task"))??;
            if found.len() >= count {
                thread::sleep(QUIET);
                return Ok(self.wait("a log", texts(project, "alice", "task"))??);
            }
            if start.elapsed() > SOON {
                return Err(Failure::new(format!(
                    "{} of {count} messages arrived within {SOON:?}: {found:?}",
                    found.len()
                )));
            }
            thread::sleep(Duration::from_millis(10));
        }
    }

    fn send(&self, project: &Operations, text: &str) -> Verdict {
        let someone = someone("alice")?;
        self.wait("a send", project.call(&someone, send("task", text)?))??;
        Ok(())
    }
}

fn unpaired(pair: bool) -> Option<Outcome> {
    let reason = "it is between hosts; --pair checks a relay that keeps all projects of one host in step";
    (!pair).then(|| Outcome::Skipped(reason.into()))
}

/// With two projects, whatever it is for: a relay that keeps projects in step has nothing to do with one, and may say so.
fn life(which: &Which, _pair: bool) -> Verdict<Outcome> {
    let (bench, host) = (Bench::new(which)?, Hosted::new(&["one", "two"]));
    for _ in 0..2 {
        let running = bench.run(&host)?;
        bench.finish(running)?;
    }
    Ok(Outcome::Passed)
}

fn sorted(mut texts: Vec<String>) -> Vec<String> {
    texts.sort();
    texts
}

fn once(which: &Which, pair: bool) -> Verdict<Outcome> {
    if let Some(skipped) = unpaired(pair) {
        return Ok(skipped);
    }
    let (bench, host) = (Bench::new(which)?, Hosted::new(&["one", "two"]));
    let (one, two) = (host.project("one")?, host.project("two")?);
    bench.send(&one, "before, in one")?;
    let running = bench.run(&host)?;
    bench.settled(&two, 1)?;
    for number in 0..20 {
        bench.send(&one, &format!("in one, {number:02}"))?;
        bench.send(&two, &format!("in two, {number:02}"))?;
    }
    let (here, there) = (sorted(bench.settled(&one, 41)?), sorted(bench.settled(&two, 41)?));
    if here != there || here.len() != 41 {
        return Err(Failure::new(format!("the projects are not in step\n  one {here:?}\n  two {there:?}")));
    }
    bench.finish(running)?;
    Ok(Outcome::Passed)
}

fn identity(which: &Which, pair: bool) -> Verdict<Outcome> {
    if let Some(skipped) = unpaired(pair) {
        return Ok(skipped);
    }
    let (bench, host) = (Bench::new(which)?, Hosted::new(&["one", "two"]));
    let (one, two) = (host.project("one")?, host.project("two")?);
    let running = bench.run(&host)?;
    bench.send(&one, "first")?;
    bench.settled(&two, 1)?;
    let ids = |project: &Operations| -> Verdict<Vec<String>> {
        let request = fmail_api::Request::Log(fmail_api::LogRequest { limit: Some(100), ..Default::default() });
        let someone = someone("alice")?;
        bench.wait("a log", async {
            let events = project.call(&someone, request).await?.events;
            let all: Vec<_> =
                futures::StreamExt::collect(events.unwrap_or_else(|| Box::pin(futures::stream::empty()))).await;
            let messages = all.into_iter().filter_map(|event| match event {
                Ok(fmail_api::Event::Message(delivery)) => Some(delivery.message.id.to_string()),
                _ => None,
            });
            Ok(messages.collect())
        })?
    };
    let (here, there) = (ids(&one)?, ids(&two)?);
    bench.finish(running)?;
    match here == there && here.len() == 1 {
        true => Ok(Outcome::Passed),
        false => Err(Failure::new(format!("the same message has the ids {here:?} and {there:?}"))),
    }
}

fn interrupted(which: &Which, pair: bool) -> Verdict<Outcome> {
    if let Some(skipped) = unpaired(pair) {
        return Ok(skipped);
    }
    let (bench, host) = (Bench::new(which)?, Hosted::new(&["one", "two"]));
    let (one, two) = (host.project("one")?, host.project("two")?);
    for round in 0..3 {
        bench.send(&one, &format!("while it is away, {round}"))?;
        let running = bench.run(&host)?;
        bench.send(&one, &format!("while it runs, {round}"))?;
        let expected = 2 * (round + 1);
        let found = bench.settled(&two, expected)?;
        if found.len() != expected {
            return Err(Failure::new(format!("{expected} messages became {}: {found:?}", found.len())));
        }
        bench.finish(running)?;
    }
    Ok(Outcome::Passed)
}

/// A message of long ago, which one side sweeps away while the relay runs and while it does not.
fn swept(which: &Which, pair: bool) -> Verdict<Outcome> {
    if let Some(skipped) = unpaired(pair) {
        return Ok(skipped);
    }
    let (bench, host) = (Bench::new(which)?, Hosted::new(&["one", "two"]));
    let (one, two) = (host.project("one")?, host.project("two")?);
    let (old, year): (MessageId, Timestamp) = ("20200601-000000-0001".parse()?, "2020-06-01T00:00:00Z".parse()?);
    let old = Draft::new("alice".parse()?, "task".parse()?, "swept").into_message(old, year);
    bench.wait("an import", host.store("one")?.import(old))??;
    let running = bench.run(&host)?;
    bench.settled(&two, 1)?;
    let sweep = Selection { before: Some("2021-01-01T00:00:00Z".parse()?), ..Selection::default() };
    let removed: Vec<_> = bench
        .wait("a removal", async { Ok::<_, Error>(host.store("two")?.remove(sweep).await?.collect().await) })??;
    if removed.len() != 1 {
        return Err(Failure::new(format!("the suite wanted to sweep one message, and swept {}", removed.len())));
    }
    // What comes behind it in the same stream shows that the relay has gone past it.
    bench.send(&one, "sent while it runs")?;
    let found = bench.settled(&two, 1)?;
    bench.finish(running)?;
    let running = bench.run(&host)?;
    bench.send(&one, "sent after a restart")?;
    let again = bench.settled(&two, 2)?;
    bench.finish(running)?;
    match found == ["sent while it runs"] && again == ["sent while it runs", "sent after a restart"] {
        true => Ok(Outcome::Passed),
        false => Err(Failure::new(format!(
            "what was swept in a project came back into it\n  while the relay ran  {found:?}\n  after a restart      \
             {again:?}"
        ))),
    }
}

/// Two projects that are in step although a third is not fit to be a peer.
fn beside(which: &Which, how: Misbehaviour, check: impl FnOnce(&Bench, &mut Running) -> Verdict) -> Verdict<Outcome> {
    let (bench, host) = (Bench::new(which)?, Hosted::with(&["bad", "one", "two"], "bad", how));
    let (one, two) = (host.project("one")?, host.project("two")?);
    bench.send(&one, "before, in one")?;
    let mut running = bench.run(&host)?;
    bench.settled(&two, 1)?;
    for number in 0..5 {
        bench.send(&one, &format!("in one, {number}"))?;
        bench.send(&two, &format!("in two, {number}"))?;
    }
    let (here, there) = (sorted(bench.settled(&one, 11)?), sorted(bench.settled(&two, 11)?));
    if here != there || here.len() != 11 {
        return Err(Failure::new(format!(
            "beside a peer that {how:?}, the projects are not in step\n  one {here:?}\n  two {there:?}"
        )));
    }
    check(&bench, &mut running)?;
    bench.finish(running)?;
    Ok(Outcome::Passed)
}

fn fails(which: &Which, pair: bool) -> Verdict<Outcome> {
    if let Some(skipped) = unpaired(pair) {
        return Ok(skipped);
    }
    beside(which, Misbehaviour::Fails, |bench, running| {
        let shown = |status: &RelayStatus| {
            status.links.iter().any(|link| link.problem.is_some() || !link.connected || link.counts.refused > 0)
        };
        let mut last = RelayStatus::default();
        let found = bench.wait("the state of a link that fails", async {
            while let Some(status) = running.status.next().await {
                if shown(&status) {
                    return true;
                }
                last = status;
            }
            false
        });
        match found {
            Ok(true) => Ok(()),
            _ => Err(Failure::new(format!(
                "a peer fails, and no link says so: with a problem, as not connected, or with what was refused; the last \
                 state is {last:?}"
            ))),
        }
    })
}

fn hangs(which: &Which, pair: bool) -> Verdict<Outcome> {
    if let Some(skipped) = unpaired(pair) {
        return Ok(skipped);
    }
    beside(which, Misbehaviour::Hangs, |_, _| Ok(()))
}
