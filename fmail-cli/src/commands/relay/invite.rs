//! `fmail relay invite`

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use clap::Args;
use fmail_api::{Error, ErrorKind, Result, parse_duration};
use fmail_host::pairing::{Inviting, Pairings};
use fmail_transports::peer::HostPort;
use serde_json::json;

use super::{is_served, note_unserved};
use crate::examples::{Example, example, help};
use crate::output::{Outcome, Output, note};
use crate::session::{Place, host, now};

const EXAMPLES: &[Example] = &[
    example("fmail relay invite --address host-a:7465", "the other host will dial host-a:7465"),
    example("fmail relay invite --address host-a:7465 | ssh host-b 'cd project && fmail relay join'", "both at once"),
];

/// Where hosts are invited to, if nobody says otherwise: beside the ports of PROTOCOL.md and of WebSockets, which agents use.
const PORT: u16 = 7465;
/// The longest that an invitation can be accepted.
const LONGEST: Duration = Duration::from_secs(30 * 24 * 3600);

#[derive(Args)]
#[command(after_help = help(EXAMPLES))]
pub(crate) struct Invite {
    /// Where the other host reaches this one [default: the name of this machine, port 7465]
    #[arg(long, value_name = "HOST:PORT")]
    address: Option<HostPort>,

    /// Where forged listens for it [default: 0.0.0.0 and the port of the address]
    #[arg(long, value_name = "IP:PORT")]
    listen: Option<SocketAddr>,

    /// What to call the other host here; without it, what it calls itself
    #[arg(long)]
    name: Option<String>,

    /// How long the invitation can be accepted; what comes of it lasts until it is revoked
    #[arg(long, value_name = "TIME", default_value = "24h")]
    expires: String,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Invite {
    pub(crate) fn run(self, place: &Place) -> Outcome {
        let name = host().unwrap_or_else(|| "localhost".into());
        let address = match self.address {
            Some(address) => address,
            None => format!("{name}:{PORT}").parse().map_err(|error: Error| {
                Error::invalid(format!("this machine's name cannot be used: {error}"))
                    .help("say with --address where the other host reaches this one")
            })?,
        };
        let listen = self.listen.unwrap_or_else(|| SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), address.port));
        if listen.port() == 0 {
            return Err(Error::invalid("--listen needs a port: another host has to know it").into());
        }
        let time = parse_duration(&self.expires)?;
        let now = now();
        let inviting = Inviting {
            project: place.project.id()?.0,
            root: place.project.root.clone(),
            address,
            listen,
            name: self.name,
            host: name,
            expires: now.after(bounded(time, &self.expires)?),
            now,
        };
        let (pairing, invitation) = Pairings::of(&place.environment)?.invite(inviting)?;
        let served = is_served(place)?;
        let mut output = Output::stdout();
        if self.json {
            output.json(&json!({
                "invitation": invitation.to_string(), "id": pairing.id, "name": pairing.name,
                "project": pairing.project, "address": pairing.address.to_string(), "listen": listen,
                "certificate": invitation.fingerprint.map(|fingerprint| fingerprint.to_string()),
                "expires": invitation.expires, "daemon": served,
            }))?;
        } else {
            output.line(&invitation.to_string())?;
        }
        output.flush()?;
        if !self.json {
            note(&format!(
                "for one host, for the project {}, until {}: give it the line above, for `fmail relay join` there",
                pairing.project,
                invitation.expires.whole_seconds()
            ));
            note_unserved(place, served);
        }
        Ok(())
    }
}

fn bounded(time: Duration, text: &str) -> Result<Duration> {
    match time {
        time if (Duration::from_secs(1)..=LONGEST).contains(&time) => Ok(time),
        _ => Err(Error::new(ErrorKind::InvalidRequest, format!("--expires is {text}; allowed is 1s to 30d"))),
    }
}
