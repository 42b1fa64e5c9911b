//! `fmail relay join`

use std::io::{self, BufRead, IsTerminal, Read};
use std::net::ToSocketAddrs;
use std::time::{Duration, Instant};

use clap::Args;
use fmail_api::{Context, Error, ErrorKind, Hello, Principal, Result};
use fmail_host::pairing::{Invitation, Pairing, Pairings};
use fmail_host::this_node;
use fmail_transports::peer::PeerAddress;
use fmail_transports::{Conversation, Endpoint, Failure, TcpEndpoint};
use serde_json::json;

use super::{is_served, note_unserved};
use crate::examples::{Example, example, help};
use crate::identity;
use crate::output::{Outcome, Output, note, report};
use crate::session::{Place, host, now};

const EXAMPLES: &[Example] = &[
    example("fmail relay join < invitation", "from a file, or from a pipe"),
    example("fmail relay join", "paste it, and press Enter"),
];

/// The longest text that is read. An invitation has some four hundred bytes.
const MOST: u64 = 64 * 1024;
/// How long a daemon may take to listen for an invitation that was just made.
const TO_LISTEN: Duration = Duration::from_secs(2);

#[derive(Args)]
#[command(after_help = help(EXAMPLES))]
pub(crate) struct Join {
    /// The line that `fmail relay invite` printed on the other host; read from standard input without it or with -
    #[arg(value_name = "INVITATION")]
    invitation: Option<String>,

    /// What to call the other host here; without it, what it calls itself
    #[arg(long)]
    name: Option<String>,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// What came of asking the other host.
struct Reached {
    took: Duration,
    daemon: Option<Hello>,
}

impl Join {
    pub(crate) fn run(self, place: &Place) -> Outcome {
        let text = match self.invitation.as_deref() {
            None | Some("-") => read()?,
            Some(text) => text.to_string(),
        };
        let invitation: Invitation = text.parse()?;
        check_project(place, &invitation)?;
        let pairings = Pairings::of(&place.environment)?;
        let renames = self.name.is_none();
        // Kept first: what the other host notes when it is asked must not be lost here.
        let mut pairing = pairings.join(&invitation, &place.project.root, self.name, now())?;
        let reached = reach_soon(place, &pairing).or_else(|error| in_time(&invitation, &pairing, error));
        let mut replaced = Vec::new();
        match &reached {
            Ok(reached) => {
                pairings.confirm(&pairing.id, now())?;
                for old in replaceable(place, &pairings, &pairing, reached)? {
                    pairing = pairings.replace(&old, &pairing, renames && replaced.is_empty())?;
                    replaced.push(old.name);
                }
            }
            Err(error) if error.kind() == ErrorKind::Denied => {
                // One that let us in before may have been revoked there, or somebody else answers now: that is for people.
                if !pairing.is_confirmed() {
                    pairings.revoke(&pairing.id)?;
                }
                return Err(error.clone().into());
            }
            Err(_) => {}
        }
        let served = is_served(place)?;
        show(&pairing, &invitation, &reached, &replaced, served, self.json)?;
        if !self.json {
            note_unserved(place, served);
        }
        Ok(())
    }
}

/// The same as [`reach`], for as long as a daemon may take that was just told of an invitation to listen for it: whoever passes
/// one on by a script is faster.
fn reach_soon(place: &Place, pairing: &Pairing) -> Result<Reached> {
    let began = Instant::now();
    loop {
        match reach(place, pairing) {
            Err(error) if error.kind() != ErrorKind::Denied && began.elapsed() < TO_LISTEN => {
                std::thread::sleep(TO_LISTEN / 20);
            }
            done => return done,
        }
    }
}

/// Why nobody was reached; for an invitation that has expired meanwhile there is nothing to wait for.
fn in_time(invitation: &Invitation, pairing: &Pairing, error: Error) -> Result<Reached> {
    if error.kind() == ErrorKind::Denied || pairing.is_confirmed() || invitation.expires > now() {
        return Err(error);
    }
    let what = format!("this invitation expired at {}, and {}", invitation.expires.whole_seconds(), error.message());
    Err(Error::new(ErrorKind::Denied, what).help("`fmail relay invite` on the other host makes a new one"))
}

/// The earlier pairings with the host that was reached that are of no use beside the new one: its daemon does not let us in by
/// them any more, or it is the same one. What leads elsewhere, or nowhere just now, is left to people.
fn replaceable(place: &Place, pairings: &Pairings, new: &Pairing, reached: &Reached) -> Result<Vec<Pairing>> {
    let run = |reached: &Reached| reached.daemon.as_ref().and_then(|daemon| daemon.node.as_ref()).map(|node| node.run);
    let mut old = pairings.all()?.pairings;
    old.retain(|old| old.is_with_the_host_of(new));
    old.retain(|old| match reach(place, old) {
        Ok(other) => run(&other).is_some() && run(&other) == run(reached),
        Err(error) => error.kind() == ErrorKind::Denied,
    });
    Ok(old)
}

/// The invitation from standard input: a line from a person, everything from a file.
fn read() -> Result<String> {
    let wrong = |error: io::Error| Error::io("cannot read the invitation from standard input", &error);
    let mut text = String::new();
    let stdin = io::stdin().lock();
    if stdin.is_terminal() {
        note("paste the invitation, and press Enter");
        stdin.take(MOST).read_line(&mut text).map_err(wrong)?;
    } else {
        stdin.take(MOST).read_to_string(&mut text).map_err(wrong)?;
    }
    Ok(text)
}

fn check_project(place: &Place, invitation: &Invitation) -> Result<()> {
    let (id, _) = place.project.id()?;
    if id == invitation.project {
        return Ok(());
    }
    let (root, wanted) = (place.project.root.display(), &invitation.project);
    Err(Error::new(
        ErrorKind::InvalidProject,
        format!("the invitation is for the project {wanted}, and {root} is the project {id}"),
    )
    .help(format!("run it in that project; if this is the same one: fmail init --project {wanted}")))
}

/// Asks the other host, which has to prove that it knows the invitation.
fn reach(place: &Place, pairing: &Pairing) -> Result<Reached> {
    let peer = pairing.peer_address().ok_or_else(|| Error::internal("a pairing that was joined has an address"))?;
    let PeerAddress { address, token, tls, .. } = peer;
    let patience = place.settings.mail.relay.dial_timeout;
    let unreached = |why: &str| Error::new(ErrorKind::Unavailable, format!("{address} was not reached: {why}"));
    let found = (address.host.as_str(), address.port).to_socket_addrs();
    let found = found.map_err(|error| unreached(&format!("its name cannot be looked up: {error}")))?;
    let client = tls.map(|believed| believed.client()).transpose()?;
    let agent = identity::anyone(&place.environment)?;
    let context = Context {
        host: host(),
        project: Some(pairing.project.clone()),
        principal: Principal::Anonymous,
        ..Context::local(agent)
    };
    let mut problem = None;
    for one in found {
        let began = Instant::now();
        let endpoint = TcpEndpoint { token: token.clone(), tls: client.clone(), patience, ..one.into() };
        let mut conversation = match Conversation::connect(&Endpoint::Tcp(endpoint)) {
            Ok(conversation) => conversation,
            Err(error) => {
                problem = Some(error);
                continue;
            }
        };
        // By this the other host knows which of its pairings are with one host.
        conversation.introduce(this_node(&place.environment)?);
        // Longer than a connection: the other host may be busy, and has to prove something.
        let greeted =
            conversation.wait(patience.max(Duration::from_secs(5))).and_then(|()| conversation.hello(&context));
        return match greeted {
            Ok(daemon) => Ok(Reached { took: began.elapsed(), daemon }),
            Err(Failure::Refused(error)) => Err(error),
            Err(Failure::Lost(error)) => Err(unreached(error.message())),
        };
    }
    let (why, help) = unanswered(problem, address.port, patience);
    Err(unreached(&why).help(help))
}

/// Why nobody was reached, and what to do about it.
fn unanswered(problem: Option<io::Error>, port: u16, patience: Duration) -> (String, String) {
    match problem {
        Some(error) if error.kind() == io::ErrorKind::ConnectionRefused => (
            "the connection was refused: that machine is there, and nothing listens on the port".into(),
            format!(
                "it is dialled again and again; start forged in the project there (within a second it listens on port \
                 {port} as invited), or revoke this and invite with the right --address"
            ),
        ),
        Some(error) if error.kind() != io::ErrorKind::TimedOut && error.kind() != io::ErrorKind::WouldBlock => (
            error.to_string(),
            "it is dialled again and again; see that the address is right and that this machine has a way there".into(),
        ),
        _ => (
            format!("nobody answers within {} ms", patience.as_millis()),
            "it is dialled again and again; see that forged runs there, and that no firewall is in between".into(),
        ),
    }
}

fn show(
    pairing: &Pairing,
    invitation: &Invitation,
    reached: &Result<Reached>,
    replaced: &[String],
    served: bool,
    json: bool,
) -> Outcome {
    let mut output = Output::stdout();
    let (address, name) = (pairing.address.to_string(), &pairing.name);
    let took = reached.as_ref().ok().map(|reached| reached.took.as_micros() as f64 / 1e3);
    let version = reached.as_ref().ok().and_then(|reached| reached.daemon.as_ref()).map(|hello| hello.version.clone());
    if json {
        output.json(&json!({
            "id": pairing.id, "name": name, "project": pairing.project, "address": address,
            "encrypted": invitation.fingerprint.is_some(), "reached": reached.is_ok(), "round_trip": took,
            "version": version, "problem": reached.as_ref().err().map(ToString::to_string), "daemon": served,
            "replaced": replaced,
        }))?;
        return output.flush();
    }
    output.line(&match took {
        Some(took) => {
            let version = version.map(|version| format!(", forged {version}")).unwrap_or_default();
            format!("paired with {name} ({address}{version}) for {}; it answered in {took} ms", pairing.project)
        }
        // Another host may have been faster: who has invited knows, and nobody else.
        None => format!(
            "kept the invitation of {name} ({address}) for {}: it has not answered yet, and they are paired once it has",
            pairing.project
        ),
    })?;
    output.flush()?;
    for old in replaced {
        note(&format!("the earlier pairing with that host, {old}, is replaced by this one"));
    }
    if let Err(error) = reached {
        report(error);
        note(&format!("the invitation can be accepted until {}", invitation.expires.whole_seconds()));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_connection_is_told_from_silence() {
        let time = Duration::from_secs(2);
        let why = |kind: io::ErrorKind| unanswered(Some(kind.into()), 7465, time);
        let (refused, help) = why(io::ErrorKind::ConnectionRefused);
        assert!(
            refused.contains("refused") && help.contains("start forged") && help.contains("7465"),
            "{refused} {help}"
        );
        assert!(why(io::ErrorKind::TimedOut).0.contains("within 2000 ms"));
        assert!(!why(io::ErrorKind::HostUnreachable).0.contains("within"));
    }
}
