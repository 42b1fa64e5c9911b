//! A crowd of agents: each sends a message, looks at its mail, and goes on with the next.
//!
//! One thread for all of them, as for the daemon's own measurements: it leaves the processors to the server.

use std::fmt;
use std::time::Instant;

use fmail_api::Result;

use super::forged::Forged;
use super::way::{Call, Way};
use crate::bench::daemon::load::worked;
use crate::bench::daemon::peer::{Frame, Peer, wait};
use crate::bench::timing::quantile;

/// How many agents there are, and how many messages each of them sends.
#[derive(Debug, Clone, Copy)]
pub struct Crowd {
    pub agents: usize,
    pub messages: usize,
}

impl fmt::Display for Crowd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Crowd { agents, messages } = self;
        write!(f, "{agents} agent{} x {messages} messages", if *agents == 1 { "" } else { "s" })
    }
}

impl Crowd {
    /// The name of an agent.
    pub fn name(agent: usize) -> String {
        format!("agent-{agent:02}")
    }

    /// To whom an agent writes a message: to all others in turn, and to itself when there is nobody else.
    fn recipient(self, agent: usize, message: usize) -> usize {
        (agent + 1 + message % self.agents.saturating_sub(1).max(1)) % self.agents
    }
}

/// What a message says, and no other one.
pub fn text(agent: usize, message: usize) -> String {
    format!(
        "load {agent:02}-{message:03}: the change to the module is ready and all checks have passed; please look at it"
    )
}

/// How long the calls took, and all of them together.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Seconds of each message that was sent.
    pub sends: Vec<f64>,
    /// Seconds of each look at the mail.
    pub fetches: Vec<f64>,
    took: f64,
    busy: f64,
    worked: f64,
}

impl Outcome {
    /// What this share of all calls does not exceed.
    pub fn all(&mut self, share: f64) -> f64 {
        quantile(&mut [self.sends.as_slice(), &self.fetches].concat(), share)
    }

    /// Adds another turn.
    pub fn add(&mut self, other: Outcome) {
        self.sends.extend(other.sends);
        self.fetches.extend(other.fetches);
        self.took += other.took;
        self.busy += other.busy;
        self.worked += other.worked;
    }

    fn calls(&self) -> f64 {
        (self.sends.len() + self.fetches.len()) as f64
    }

    /// The daemon's processor time for each call, in seconds.
    pub fn worked(&self) -> f64 {
        self.worked / self.calls()
    }

    /// Calls each second.
    pub fn each_second(&self) -> f64 {
        self.calls() / self.took
    }

    /// The same for the table, with a remark when it says more about the generator than about the server.
    pub fn rate(&self) -> String {
        let remark = if self.busy / self.took > 0.9 { " (the generator was busy)" } else { "" };
        format!("{:.0} calls/s{remark}", self.each_second())
    }
}

/// The median and what 99 of 100 do not exceed.
pub fn quantiles(samples: &mut [f64]) -> (f64, f64) {
    (quantile(samples, 0.5), quantile(samples, 0.99))
}

/// An agent at work.
struct Agent {
    peer: Peer,
    /// How many calls it has made.
    made: usize,
    since: Instant,
}

/// Lets everybody work until all is done.
pub fn work(way: Way, forged: &Forged, crowd: Crowd) -> Result<Outcome> {
    let mut agents = (0..crowd.agents).map(|agent| enter(way, forged, agent)).collect::<Result<Vec<_>>>()?;
    let mut outcome = Outcome::default();
    let (start, spent, before) = (Instant::now(), worked(), forged.worked());
    for (number, agent) in agents.iter_mut().enumerate() {
        agent.go_on(way, forged, crowd, number)?;
    }
    let mut left = crowd.agents;
    while left > 0 {
        for number in wait(agents.iter().map(|agent| &agent.peer))? {
            let agent = &mut agents[number];
            let call = agent.call();
            agent.peer.write()?;
            if agent.peer.hear(way.end(call))? == 0 {
                continue;
            }
            let taken = agent.since.elapsed().as_secs_f64();
            match call {
                Call::Send => outcome.sends.push(taken),
                Call::Fetch => outcome.fetches.push(taken),
            }
            agent.made += 1;
            match agent.made == 2 * crowd.messages {
                true => left -= 1,
                false => agent.go_on(way, forged, crowd, number)?,
            }
        }
    }
    outcome.took = start.elapsed().as_secs_f64();
    outcome.busy = (worked() - spent).as_secs_f64();
    outcome.worked = forged.worked() - before;
    Ok(outcome)
}

/// Connects and becomes known.
fn enter(way: Way, forged: &Forged, agent: usize) -> Result<Agent> {
    let mut peer = way.connect(forged)?;
    peer.say(&way.registration(forged, &Crowd::name(agent)))?;
    peer.wait_for(Frame::Acknowledgement)?;
    Ok(Agent { peer, made: 0, since: Instant::now() })
}

impl Agent {
    /// What it does next, or is doing.
    fn call(&self) -> Call {
        if self.made.is_multiple_of(2) { Call::Send } else { Call::Fetch }
    }

    fn go_on(&mut self, way: Way, forged: &Forged, crowd: Crowd, number: usize) -> Result<()> {
        let (name, message) = (Crowd::name(number), self.made / 2);
        let request = match self.call() {
            Call::Send => {
                let to = Crowd::name(crowd.recipient(number, message));
                way.send(forged, &name, &to, &text(number, message))
            }
            Call::Fetch => way.fetch(forged, &name),
        };
        self.since = Instant::now();
        self.peer.say(&request)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everybody_writes_to_all_others_in_turn() {
        let crowd = Crowd { agents: 3, messages: 4 };
        let of_one: Vec<usize> = (0..4).map(|message| crowd.recipient(1, message)).collect();
        assert_eq!(of_one, [2, 0, 2, 0]);
        assert_eq!(Crowd { agents: 1, messages: 1 }.recipient(0, 7), 0);
    }
}
