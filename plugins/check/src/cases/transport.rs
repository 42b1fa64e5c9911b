//! The rules of transports (T1 to T5), with a host in memory behind the plugin and its own client in front.

use std::sync::Arc;
use std::time::Duration;

use fmail_api::{
    Client, ErrorKind, Event, Listening, ProjectRef, ReadRequest, Request, Response, Transport, WatchRequest,
};
use fmail_conformance::{Failure, Outcome, Verdict};
use fmail_host::PluginKind;
use fmail_host::plugin::{Plugin, PluginTransport, Role};
use futures::{FutureExt, StreamExt};
use tokio::runtime::Runtime;
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::OwnCase;
use super::wire::{Raw, nonsense};
use crate::hosted::{Hosted, OnRuntime, runtime, send, someone, texts};
use crate::subject::Place;
use crate::which::Which;

pub(super) static CASES: &[OwnCase] = &[
    OwnCase { rule: "T1", name: "clients_can_connect_when_serve_returns", check: connects },
    OwnCase { rule: "T2", name: "serving_ends_after_the_shutdown", check: ends },
    OwnCase { rule: "T2", name: "nobody_connects_after_the_shutdown", check: closed },
    OwnCase { rule: "T3", name: "a_client_that_goes_away_disturbs_nobody", check: goes_away },
    OwnCase { rule: "T3", name: "garbage_on_the_wire_disturbs_nobody", check: garbage },
    OwnCase { rule: "T3", name: "silence_on_the_wire_disturbs_nobody", check: silence },
    OwnCase { rule: "T4", name: "nobody_listens_is_unavailable_and_told_in_time", check: nobody },
    OwnCase { rule: "T5", name: "requests_answers_and_errors_come_through", check: through },
    OwnCase { rule: "T5", name: "a_stream_comes_through_in_order", check: stream },
];

/// How long anything here may take.
const SOON: Duration = Duration::from_secs(20);

/// A transport, and the runtime and the directory that it lives in.
struct Bench {
    transport: PluginTransport,
    runtime: Runtime,
    _place: Place,
}

/// One that is serving.
struct Serving {
    listening: Listening,
    end: oneshot::Sender<()>,
}

impl Bench {
    fn new(which: &Which) -> Verdict<Bench> {
        let (place, runtime) = (Place::new(which)?, runtime()?);
        let plugin = Plugin::load(&place.chosen.plugin, PluginKind::Transport)?;
        let data_dir = place.surroundings(Role::Server)?.data_dir;
        let spawner = Arc::new(OnRuntime(runtime.handle().clone()));
        Ok(Bench { transport: PluginTransport::new(plugin, data_dir, spawner), runtime, _place: place })
    }

    /// Waits, but not for ever.
    fn wait<T>(&self, what: &str, future: impl Future<Output = T>) -> Verdict<T> {
        let waited = self.runtime.block_on(async { timeout(SOON, future).await });
        waited.map_err(|_| Failure::new(format!("{what}: nothing happened within {SOON:?}")))
    }

    fn serve(&self, host: &Arc<Hosted>) -> Verdict<Serving> {
        let (end, ended) = oneshot::channel();
        let shutdown = ended.map(drop).boxed();
        let listening = self.wait("`serve`", self.transport.serve(host.clone(), shutdown))??;
        if listening.endpoint.is_empty() {
            return Err(Failure::new("the head of `serve` names no endpoint"));
        }
        Ok(Serving { listening, end })
    }

    fn client(&self) -> Verdict<Arc<dyn Client>> {
        Ok(self.wait("connecting", self.transport.connect(ProjectRef::Id("one".into())))??)
    }

    fn call(&self, client: &dyn Client, request: Request) -> Verdict<fmail_api::Result<fmail_api::Reply>> {
        let someone = someone("alice")?;
        self.wait("a request", client.call(&someone, request))
    }

    /// Ends serving, which must go well.
    fn finish(&self, serving: Serving) -> Verdict {
        let _ = serving.end.send(());
        Ok(self.wait("the end after the shutdown", serving.listening.finished)??)
    }
}

/// A transport that only serves cannot be asked by its own client; the reason.
fn one_sided(error: &fmail_api::Error) -> Option<Outcome> {
    let reason = "the plugin serves, but its role `client` is unsupported: there is nobody to ask it with";
    (error.kind() == ErrorKind::Unsupported).then(|| Outcome::Skipped(reason.into()))
}

/// Runs a case with a server and a client.
fn both(
    which: &Which,
    check: impl FnOnce(&Bench, &Arc<Hosted>, &Serving, Arc<dyn Client>) -> Verdict,
) -> Verdict<Outcome> {
    let (bench, host) = (Bench::new(which)?, Hosted::new(&["one"]));
    let serving = bench.serve(&host)?;
    let client = bench.client()?;
    if let Err(error) = bench.call(&*client, Request::Topics)? {
        return one_sided(&error).ok_or_else(|| Failure::from(error));
    }
    check(&bench, &host, &serving, client)?;
    bench.finish(serving)?;
    Ok(Outcome::Passed)
}

fn connects(which: &Which, _: bool) -> Verdict<Outcome> {
    // The first request of `both` comes right behind `serve`; a second server on the same place comes after the first.
    for _ in 0..3 {
        match both(which, |_, _, _, _| Ok(()))? {
            Outcome::Passed => {}
            other => return Ok(other),
        }
    }
    Ok(Outcome::Passed)
}

fn ends(which: &Which, _: bool) -> Verdict<Outcome> {
    let (bench, host) = (Bench::new(which)?, Hosted::new(&["one"]));
    for _ in 0..2 {
        let serving = bench.serve(&host)?;
        bench.finish(serving)?;
    }
    Ok(Outcome::Passed)
}

fn closed(which: &Which, _: bool) -> Verdict<Outcome> {
    let (bench, host) = (Bench::new(which)?, Hosted::new(&["one"]));
    let serving = bench.serve(&host)?;
    let client = bench.client()?;
    if let Err(error) = bench.call(&*client, Request::Topics)? {
        return one_sided(&error).ok_or_else(|| Failure::from(error));
    }
    bench.finish(serving)?;
    let late = bench.client()?;
    match bench.call(&*late, Request::Topics)? {
        Ok(_) => Err(Failure::new("a request after the shutdown was answered")),
        Err(_) => Ok(Outcome::Passed),
    }
}

fn goes_away(which: &Which, _: bool) -> Verdict<Outcome> {
    both(which, |bench, _, _, client| {
        for number in 0..5 {
            let leaving = bench.client()?;
            let watch = bench.call(&*leaving, Request::Watch(WatchRequest::default()))??;
            drop((watch, leaving));
            bench.call(&*client, send("task", &format!("text {number}"))?)??;
        }
        let found = bench.wait("a log", texts(&*client, "alice", "task"))??;
        let expected: Vec<String> = (0..5).map(|number| format!("text {number}")).collect();
        same(&found, &expected)
    })
}

/// Whatever a peer may write that never read the transport's documentation.
fn garbage(which: &Which, _: bool) -> Verdict<Outcome> {
    let mut skipped = None;
    let outcome = both(which, |bench, _, serving, client| {
        for (number, nonsense) in nonsense().into_iter().enumerate() {
            let mut peer = match Raw::connect(&serving.listening.endpoint)? {
                Ok(peer) => peer,
                Err(reason) => {
                    skipped = Some(reason);
                    return Ok(());
                }
            };
            peer.throw(&nonsense);
            bench.call(&*client, send("task", &format!("text {number}"))?)??;
            drop(peer);
            bench.call(&*client, Request::Topics)??;
        }
        let fresh = bench.client()?;
        let found = bench.wait("a log", texts(&*fresh, "alice", "task"))??;
        let expected: Vec<String> = (0..nonsense().len()).map(|number| format!("text {number}")).collect();
        same(&found, &expected)
    })?;
    Ok(skipped.map_or(outcome, Outcome::Skipped))
}

/// Connections on which nothing is said, or only the beginning of something; they are there until the end.
fn silence(which: &Which, _: bool) -> Verdict<Outcome> {
    let mut silent = Vec::new();
    let mut skipped = None;
    let outcome = both(which, |bench, _, serving, client| {
        for number in 0..16 {
            match Raw::connect(&serving.listening.endpoint)? {
                Ok(mut peer) => {
                    if number % 2 == 1 {
                        peer.throw(b"{");
                    }
                    silent.push(peer);
                }
                Err(reason) => {
                    skipped = Some(reason);
                    return Ok(());
                }
            }
        }
        bench.call(&*client, send("task", "among the silent")?)??;
        let found = bench.wait("a log", texts(&*bench.client()?, "alice", "task"))??;
        same(&found, &["among the silent".into()])
    })?;
    Ok(skipped.map_or(outcome, Outcome::Skipped))
}

fn nobody(which: &Which, _: bool) -> Verdict<Outcome> {
    let bench = Bench::new(which)?;
    let someone = someone("alice")?;
    let asked = bench.wait("a request that nobody listens to", async {
        bench.transport.connect(ProjectRef::Id("one".into())).await?.call(&someone, Request::Topics).await
    })?;
    match asked {
        Ok(_) => Err(Failure::new("a request was answered, and nobody listens")),
        Err(error) if error.kind() == ErrorKind::Unavailable => Ok(Outcome::Passed),
        Err(error) => one_sided(&error).ok_or_else(|| Failure::new(format!("this is no `unavailable`: {error:?}"))),
    }
}

fn through(which: &Which, _: bool) -> Verdict<Outcome> {
    both(which, |bench, host, _, client| {
        let odd = "Grüße, 你好, 🦀; quotes \" and \\ and \n lines \u{0}";
        let sent = match bench.call(&*client, send("task", odd)?)??.head {
            Response::Sent(sent) => sent,
            other => return Err(Failure::new(format!("a send is answered with {other:?}"))),
        };
        let behind = host.project("one")?;
        same(&bench.wait("a log", texts(&*behind, "alice", "task"))??, &[odd.to_string()])?;
        same(&bench.wait("a log", texts(&*client, "alice", "task"))??, &[odd.to_string()])?;
        let wrong = ReadRequest { ids: vec!["20200101-000000-0001".into()], peek: true, token: None };
        let expected = bench.call(&*behind, Request::Read(wrong.clone()))?.err();
        let found = bench.call(&*client, Request::Read(wrong))?.err();
        let kinds = (found.as_ref().map(|error| error.kind()), expected.as_ref().map(|error| error.kind()));
        if kinds.0 != kinds.1 || kinds.1.is_none() {
            return Err(Failure::new(format!("an error came through as {found:?}, it was {expected:?} ({sent:?})")));
        }
        Ok(())
    })
}

fn stream(which: &Which, _: bool) -> Verdict<Outcome> {
    const MANY: usize = 200;
    both(which, |bench, host, _, client| {
        let reply = bench.call(&*client, Request::Watch(WatchRequest::default()))??;
        let mut events = reply.events.ok_or_else(|| Failure::new("a watch is answered without a stream"))?;
        let (behind, someone) = (host.project("one")?, someone("bob")?);
        let expected: Vec<String> = (0..MANY).map(|number| format!("text {number}")).collect();
        for text in &expected {
            bench.wait("a send", behind.call(&someone, send("task", text)?))??;
        }
        let mut found = Vec::new();
        while found.len() < MANY {
            match bench.wait("the next message of a watch", events.next())? {
                Some(Ok(Event::Message(delivery))) => {
                    found.push(delivery.message.body.as_str().unwrap_or_default().to_string());
                }
                Some(Ok(_)) => {}
                Some(Err(error)) => return Err(error.into()),
                None => return Err(Failure::new(format!("the watch ended after {} of {MANY} messages", found.len()))),
            }
        }
        same(&found, &expected)
    })
}

fn same(found: &[String], expected: &[String]) -> Verdict {
    match found == expected {
        true => Ok(()),
        false => Err(Failure::new(format!(
            "what comes through is not what went in\n  found    {found:?}\n  expected {expected:?}"
        ))),
    }
}
