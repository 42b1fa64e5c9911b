//! `reserve`: takes leases on patterns of paths, as far as nobody else is in the way.

use std::time::Duration;

use fmail_api::{AgentName, Context, Error, ErrorKind, Lease, LeaseConflict, ReserveRequest, Reserved, Result};

use crate::leases::{Leases, Rival, lasting, rivals_among};
use crate::{Operations, PathPattern, access};

/// The most patterns in a request.
const MOST_PATTERNS: usize = 50;

/// The most leases in a project. Every request is compared with all of them.
const MOST_LEASES: usize = 1000;

/// The longest reason, in bytes.
const LONGEST_REASON: usize = 1000;

/// What an agent asks for.
struct Asked {
    agent: AgentName,
    host: Option<String>,
    patterns: Vec<PathPattern>,
    time: Duration,
    exclusive: bool,
    reason: Option<String>,
}

impl Operations {
    pub(crate) async fn reserve(&self, context: &Context, request: ReserveRequest) -> Result<Reserved> {
        access::named(context, "a reservation")?;
        let asked = Asked::read(context, &request)?;
        let mut answer = self.change_leases(|leases| asked.grant(leases)).await?;
        // Looked at behind the change: between hosts nobody is first, and who is told late is told all the same.
        let elsewhere = self.leases_elsewhere(self.moment()).await?;
        let elsewhere: Vec<Lease> = elsewhere.into_iter().map(|(_, lease)| lease).collect();
        asked.show(&rivals_among(&elsewhere, &asked.agent, asked.exclusive)?, &mut answer);
        Ok(answer)
    }
}

impl Asked {
    fn read(context: &Context, request: &ReserveRequest) -> Result<Asked> {
        let mut patterns: Vec<PathPattern> = Vec::new();
        match request.paths.len() {
            0 => return Err(Error::invalid("no path is named").help("give at least one path or pattern")),
            count if count > MOST_PATTERNS => {
                let found = format!("{count} patterns are named, at most {MOST_PATTERNS} are allowed");
                return Err(Error::invalid(found).help(
                    "reserve a directory above them, or use a pattern, in quotes so that the shell does not expand it",
                ));
            }
            _ => {}
        }
        for text in &request.paths {
            let pattern = text.parse()?;
            if !patterns.contains(&pattern) {
                patterns.push(pattern);
            }
        }
        Ok(Asked {
            agent: context.agent.clone(),
            host: context.host.clone(),
            patterns,
            time: lasting(request.ttl_seconds)?,
            exclusive: request.exclusive,
            reason: reason(request.reason.as_deref())?,
        })
    }

    /// Takes what is free. What is not leaves everything as it is, a lease that the agent has on this very pattern too.
    fn grant(&self, leases: &mut Leases) -> Result<Reserved> {
        let rivals = leases.rivals(&self.agent, self.exclusive)?;
        let before = leases.held.len();
        let mut answer = Reserved::default();
        for pattern in &self.patterns {
            match conflict(pattern, &rivals) {
                Some(conflict) => answer.conflicts.push(conflict),
                None => answer.granted.push(self.hold(pattern, leases)),
            }
        }
        let count = leases.held.len();
        if count > MOST_LEASES && count > before {
            let found = format!("{before} paths are reserved in this project, at most {MOST_LEASES} can be");
            return Err(Error::new(ErrorKind::Backpressure, found)
                .help("reserve directories instead of single files, and release what is no longer needed"));
        }
        Ok(answer)
    }

    /// Shows what stands against the patterns on other hosts. It takes nothing back.
    fn show(&self, rivals: &[Rival], answer: &mut Reserved) {
        for elsewhere in self.patterns.iter().filter_map(|pattern| conflict(pattern, rivals)) {
            match answer.conflicts.iter_mut().find(|known| known.path == elsewhere.path) {
                Some(known) => known.holders.extend(elsewhere.holders),
                None => answer.conflicts.push(elsewhere),
            }
        }
    }

    /// Takes a lease, or renews the one that the agent has on this pattern.
    fn hold(&self, pattern: &PathPattern, leases: &mut Leases) -> Lease {
        let until = leases.now.after(self.time);
        let own = |lease: &&mut Lease| lease.agent == self.agent && lease.pattern == pattern.as_str();
        if let Some(lease) = leases.held.iter_mut().find(own) {
            lease.until = until;
            lease.exclusive = self.exclusive;
            lease.host.clone_from(&self.host);
            // Who only wants more time does not say again what for.
            lease.reason = self.reason.clone().or(lease.reason.take());
            return lease.clone();
        }
        let lease = Lease {
            id: leases.new_id(),
            agent: self.agent.clone(),
            pattern: pattern.to_string(),
            exclusive: self.exclusive,
            reason: self.reason.clone(),
            since: leases.now,
            until,
            host: self.host.clone(),
            extra: Default::default(),
        };
        leases.held.push(lease.clone());
        lease
    }
}

/// What stands against a pattern.
fn conflict(pattern: &PathPattern, rivals: &[Rival]) -> Option<LeaseConflict> {
    let in_the_way: Vec<&Rival> = rivals.iter().filter(|rival| rival.pattern.intersects(pattern)).collect();
    let first = in_the_way.first()?;
    Some(LeaseConflict {
        path: pattern.to_string(),
        example: first.pattern.witness(pattern),
        holders: in_the_way.iter().map(|rival| rival.lease.clone()).collect(),
    })
}

fn reason(text: Option<&str>) -> Result<Option<String>> {
    let text = text.map(str::trim).filter(|text| !text.is_empty());
    if let Some(text) = text.filter(|text| text.len() > LONGEST_REASON) {
        let found = format!("the reason has {} bytes, at most {LONGEST_REASON} are allowed", text.len());
        return Err(Error::invalid(found).help("say it in a sentence; details go into a message"));
    }
    Ok(text.map(String::from))
}
