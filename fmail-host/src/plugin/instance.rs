//! One instance of a plugin, wherever its code runs.

use std::fmt::Display;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use fmail_abi::{Answer, Calls, Counters, Items, Peer, Service, Spawner, status};
use fmail_api::{Error, ErrorKind, Result};
use futures::future::{Either, select};
use futures::{FutureExt, Stream, StreamExt};
use futures_timer::Delay;

use super::failure::DEFECT;
use super::ledger::{Ledger, Life, Ticket};
use super::{Manifest, failure};

/// What carries the calls of one instance: the functions of a library, or lines to a child process.
///
/// None of its functions blocks. What the plugin says comes in through the [`Calls`] that the carrier was made with.
pub trait Carrier: Peer {
    /// Makes the instance; `done` for this number says how that went. Called once, before anything else.
    fn create(&self, id: u64, envelope: &[u8]);
    /// Ends the instance; `done` for this number says that it is gone. Called once; whatever is called afterwards does
    /// not reach the plugin. After a `create` that was not answered with success it only lets go of the carrier's own.
    fn destroy(&self, id: u64);
    /// Why no answer comes, where the carrier can tell: "`call` has not returned for 12 s".
    fn stuck(&self) -> Option<String> {
        None
    }
}

/// Who runs what a plugin asks of the host: transports and relays do, stores do not.
pub struct Upward {
    /// What can be asked.
    pub service: Arc<dyn Service>,
    /// Where it runs when it is not ready at once.
    pub spawner: Arc<dyn Spawner>,
}

/// An instance of a plugin that is alive until it is closed.
///
/// Every call ends: with the plugin's answer, at the deadline, or when the instance is closed.
pub struct Instance {
    name: String,
    manifest: Arc<Manifest>,
    calls: Arc<Calls>,
    carrier: Arc<dyn Carrier>,
    peer: Arc<dyn Peer>,
    timeout: Duration,
    ledger: Arc<Ledger>,
}

impl Instance {
    /// Makes the instance and waits until it is ready.
    ///
    /// `name` is that of its section in the configuration, `calls` the table that `carrier` answers into, and `timeout` the
    /// deadline of each call, the creation too. An instance that is not ready by then is given up: whatever it says later
    /// has no effect.
    pub async fn create(
        name: &str,
        manifest: Arc<Manifest>,
        calls: Arc<Calls>,
        carrier: Arc<dyn Carrier>,
        timeout: Duration,
        envelope: &[u8],
    ) -> Result<Instance> {
        let peer: Arc<dyn Peer> = carrier.clone();
        let ledger = Ledger::new();
        let instance = Instance { name: name.into(), manifest, calls, carrier, peer, timeout, ledger };
        let making = instance.calls.begin(&instance.peer, |id| instance.carrier.create(id, envelope));
        let ready = match instance.within(timeout, making).await {
            Ok(answer) => instance.judge("create", answer, status::OK).map(drop),
            Err(timeout) => Err(instance.overdue("create", timeout)),
        };
        // An instance that is dropped before it is alive is given up.
        ready?;
        instance.ledger.turn(Life::New, Life::Alive);
        Ok(instance)
    }

    /// The name of the section in the configuration that it was made for.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What the plugin says about itself.
    pub fn manifest(&self) -> &Arc<Manifest> {
        &self.manifest
    }

    /// The deadline of each call.
    pub fn timeout(&self) -> Duration {
        self.timeout
    }

    /// What the plugin said that had no effect.
    pub fn counters(&self) -> Counters {
        self.calls.counters()
    }

    /// Makes a call and waits for its answer, at most until the deadline. Dropped before that, the call is given up.
    pub async fn call(&self, method: &'static str, context: &[u8], request: &[u8]) -> Result<Vec<u8>> {
        let _ticket = self.begin(method)?;
        let call = self.calls.call(&self.peer, method, context, request);
        match self.within(self.timeout, call).await {
            Ok(answer) => self.judge(method, answer, status::OK),
            Err(timeout) => Err(self.overdue(method, timeout)),
        }
    }

    /// Makes a call that streams, and waits for its head, at most until the deadline. What follows has no deadline: a watch
    /// may be silent for days.
    pub async fn stream(&self, method: &'static str, context: &[u8], request: &[u8]) -> Result<(Vec<u8>, Replies)> {
        let ticket = self.begin(method)?;
        let doing = self.doing(method);
        let mut items = self.calls.stream(&self.peer, method, context, request);
        let first = self.within(self.timeout, items.next()).await.map_err(|timeout| self.overdue(method, timeout))?;
        match first {
            Some(Ok(head)) => Ok((head, Replies { items, doing, _ticket: ticket })),
            Some(Err(answer)) if answer.status == status::END => {
                Err(Error::internal(format!("{doing}: the stream ended before its head, which is its first item"))
                    .help(DEFECT))
            }
            Some(Err(answer)) => Err(failure(&doing, &answer)),
            None => Err(Error::internal(format!("{doing}: the stream had no end"))),
        }
    }

    /// Ends the instance: takes no further call, lets those under way end within `grace`, cancels the rest, and waits as
    /// long again until the plugin says that it is gone.
    ///
    /// The error says which calls hang, and for how long; the instance is given up then. A second close does nothing.
    pub async fn close(&self, grace: Duration) -> Result<Counters> {
        if !self.ledger.turn(Life::Alive, Life::Closing) {
            return Ok(self.counters());
        }
        let _ = self.within(grace, self.ledger.idle().boxed()).await;
        let unanswered = self.ledger.under_way();
        self.calls.ids().into_iter().for_each(|id| self.carrier.cancel(id));
        let ended = Answer::cancelled("the plugin's instance was closed");
        self.calls.fail(&ended);
        // From here on it is destroyed by us, and not again when it is dropped while we wait.
        self.ledger.turn(Life::Closing, Life::Gone);
        let destroying = self.calls.begin(&self.peer, |id| self.carrier.destroy(id));
        let gone = self.within(grace, destroying).await;
        let stuck = self.carrier.stuck();
        self.calls.close(&ended);
        match gone {
            Ok(answer) => self.judge("destroy", answer, status::OK).map(|_| self.counters()),
            Err(_) => Err(self.hung(grace, &unanswered, stuck)),
        }
    }

    /// Lets go of an instance that never was ready.
    fn abandon(&self) {
        self.calls.close(&Answer::cancelled("the plugin's instance was given up"));
        self.carrier.destroy(0);
    }

    fn begin(&self, method: &'static str) -> Result<Ticket> {
        self.ledger.begin(method).map_err(|_| {
            Error::new(ErrorKind::Unavailable, "the instance is closed and takes no further call")
                .context("plugin", self.doing(method))
        })
    }

    /// Waits for something, at most so long. What is there already costs no timer.
    async fn within<F: Future + Unpin>(&self, limit: Duration, mut wanted: F) -> Result<F::Output, Duration> {
        if let Poll::Ready(ready) = futures::poll!(&mut wanted) {
            return Ok(ready);
        }
        match select(wanted, Delay::new(limit)).await {
            Either::Left((ready, _)) => Ok(ready),
            Either::Right(_) => Err(limit),
        }
    }

    /// The body of an answer that is no error.
    fn judge(&self, method: &str, answer: Answer, good: i32) -> Result<Vec<u8>> {
        match answer.status {
            status if status == good => Ok(answer.body),
            _ => Err(failure(&self.doing(method), &answer)),
        }
    }

    fn doing(&self, method: &str) -> String {
        format!("the plugin `{}`, `{method}`", self.name)
    }

    fn overdue(&self, method: &str, limit: Duration) -> Error {
        let stuck = self.carrier.stuck().map(|why| format!(": {why}")).unwrap_or_default();
        Error::new(ErrorKind::Timeout, format!("no answer within {limit:?}{stuck}"))
            .context("plugin", self.doing(method))
            .help(format!(
                "mail.plugin.{}.timeout allows more time; the plugin's log may say what it waits for",
                self.name
            ))
    }

    fn hung(&self, limit: Duration, unanswered: &[(&str, Duration)], stuck: Option<String>) -> Error {
        let mut what = format!("has not ended within {limit:?}");
        if let Some(why) = stuck {
            what += &format!("; {why}");
        }
        if !unanswered.is_empty() {
            what += &format!("; unanswered until it was closed: {}", List(unanswered));
        }
        Error::new(ErrorKind::Timeout, what)
            .context("plugin", self.doing("destroy"))
            .help("the instance was given up and stays in memory until the program ends")
    }
}

impl Drop for Instance {
    /// An instance that nobody closed to the end is told to end; nobody waits for that.
    fn drop(&mut self) {
        let life = self.ledger.end();
        if life == Life::New {
            return self.abandon();
        }
        let dropped = Answer::cancelled("the plugin's instance was dropped");
        if matches!(life, Life::Alive | Life::Closing) {
            self.calls.fail(&dropped);
            // Behind `destroy` nothing is said to the plugin any more.
            self.calls.begin(&self.peer, |id| self.carrier.destroy(id)).leave();
        }
        self.calls.close(&dropped);
    }
}

/// What follows the head of a stream. It ends when the plugin says so; an error is the last thing that comes.
pub struct Replies {
    items: Items,
    doing: String,
    _ticket: Ticket,
}

impl Stream for Replies {
    type Item = Result<Vec<u8>>;

    fn poll_next(mut self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.items.poll_next_unpin(task).map(|next| match next {
            Some(Ok(item)) => Some(Ok(item)),
            Some(Err(answer)) if answer.status == status::END => None,
            Some(Err(answer)) => Some(Err(failure(&self.doing, &answer))),
            None => None,
        })
    }
}

/// Calls with their ages, as an operator reads them; of many, the oldest.
struct List<'a>(&'a [(&'a str, Duration)]);

impl Display for List<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        const SHOWN: usize = 5;
        for (index, (method, age)) in self.0.iter().take(SHOWN).enumerate() {
            let comma = if index > 0 { ", " } else { "" };
            write!(f, "{comma}`{method}` for {:.1} s", age.as_secs_f64())?;
        }
        match self.0.len().saturating_sub(SHOWN) {
            0 => Ok(()),
            more => write!(f, " and {more} more"),
        }
    }
}
