//! Which leases an agent means when it names some, and why one that it names is not among them.

use std::collections::BTreeSet;

use fmail_api::{AgentName, Error, Lease, LeaseSelection, Result, SkippedLease};

use super::{Leases, lease_pattern};
use crate::PathPattern;

/// The leases that were meant.
pub(crate) struct Selected {
    /// The numbers of those that the agent holds.
    pub(crate) ids: BTreeSet<u64>,
    /// What was named besides.
    pub(crate) skipped: Vec<SkippedLease>,
}

impl Leases {
    /// The agent's leases that a selection means.
    pub(crate) fn select(&self, agent: &AgentName, which: &LeaseSelection) -> Result<Selected> {
        let named = !which.paths.is_empty() || !which.ids.is_empty();
        if which.all == named {
            let found = if named { "reservations are named, and all are meant" } else { "no reservation is named" };
            return Err(Error::invalid(found).help("give patterns, --id, or --all"));
        }
        if which.all {
            let ids = self.held.iter().filter(|lease| lease.agent == *agent).map(|lease| lease.id).collect();
            return Ok(Selected { ids, skipped: Vec::new() });
        }
        let mut selected = Selected { ids: BTreeSet::new(), skipped: Vec::new() };
        for text in &which.paths {
            let pattern: PathPattern = text.parse()?;
            match self.on_pattern(agent, &pattern) {
                Ok(id) => drop(selected.ids.insert(id)),
                Err(reason) => selected.skipped.push(SkippedLease { named: pattern.to_string(), reason }),
            }
        }
        for id in &which.ids {
            match self.numbered(agent, *id) {
                Ok(()) => drop(selected.ids.insert(*id)),
                Err(reason) => selected.skipped.push(SkippedLease { named: id.to_string(), reason }),
            }
        }
        Ok(selected)
    }

    /// The agent's leases that have ended and still stand in the record.
    pub(crate) fn ended_of(&self, agent: &AgentName) -> Vec<SkippedLease> {
        let own = self.ended.iter().filter(|lease| lease.agent == *agent);
        own.map(|lease| SkippedLease { named: lease.pattern.clone(), reason: ended(lease) }).collect()
    }

    /// The agent's lease on a pattern, or why there is none.
    fn on_pattern(&self, agent: &AgentName, pattern: &PathPattern) -> Result<u64, String> {
        let own = || self.held.iter().filter(|lease| lease.agent == *agent);
        // A directory that looks like a file is reserved with a slash at its end; it may be gone by now, so that whoever
        // names it no longer knows.
        let alike = |lease: &&Lease| lease.pattern.trim_end_matches('/') == pattern.as_str().trim_end_matches('/');
        let exact = own().find(|lease| lease.pattern == pattern.as_str());
        if let Some(lease) = exact.or_else(|| own().find(alike)) {
            return Ok(lease.id);
        }
        let others: Vec<String> = self.held.iter().filter(alike).map(holder).collect();
        if !others.is_empty() {
            return Err(format!("held by {}", others.join(", ")));
        }
        if let Some(lease) = self.ended.iter().find(|lease| lease.agent == *agent && alike(lease)) {
            return Err(ended(lease));
        }
        let overlapping = |lease: &&Lease| lease_pattern(lease).is_ok_and(|own| own.intersects(pattern));
        let near: Vec<String> =
            own().filter(overlapping).map(|lease| format!("`{}` (--id {})", lease.pattern, lease.id)).collect();
        Err(match near.is_empty() {
            true => "you do not hold it".into(),
            false => format!("you do not hold it, but you hold {}", near.join(", ")),
        })
    }

    /// Whether the agent holds the lease of this number; if not, why.
    fn numbered(&self, agent: &AgentName, id: u64) -> Result<(), String> {
        match self.held.iter().find(|lease| lease.id == id) {
            Some(lease) if lease.agent == *agent => Ok(()),
            Some(lease) => Err(format!("held by {}", holder(lease))),
            None => Err(match self.ended.iter().find(|lease| lease.id == id) {
                Some(lease) => ended(lease),
                None if (1..self.next).contains(&id) => "it has ended or was given back".into(),
                None => "there has never been a reservation of this number".into(),
            }),
        }
    }
}

fn holder(lease: &Lease) -> String {
    format!("@{} until {}", lease.agent, lease.until.whole_seconds())
}

fn ended(lease: &Lease) -> String {
    format!("it ended at {}", lease.until.whole_seconds())
}
