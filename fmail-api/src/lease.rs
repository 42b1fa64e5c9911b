//! Reservations: advisory leases on paths and patterns of paths.
//!
//! All leases of a project stand in one record, since whether two patterns overlap is a question about all of them: one
//! compare-and-swap decides who is first. Between hosts conflicts are shown, not prevented.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{AgentName, Timestamp};

/// An agent's right to the paths that fit a pattern, for a while. Advisory: it stops nobody but those who ask.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Lease {
    /// Its number in the project; never used again.
    pub id: u64,
    /// Who holds it.
    pub agent: AgentName,
    /// Which paths, relative to the project's directory.
    pub pattern: String,
    /// Nobody else may hold an overlapping one. Otherwise only exclusive ones conflict with it.
    pub exclusive: bool,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Since when.
    pub since: Timestamp,
    /// Until when.
    pub until: Timestamp,
    /// The host of the holder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// Fields that fmail does not know.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

/// A lease that holds now, and what stands against it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HeldLease {
    /// The lease.
    #[serde(flatten)]
    pub lease: Lease,
    /// The leases on other hosts that conflict with it, by the rule that [`ReserveRequest`] goes by: between hosts both hold.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conflicts: Vec<Lease>,
}

impl From<Lease> for HeldLease {
    /// One that nothing stands against.
    fn from(lease: Lease) -> Self {
        HeldLease { lease, conflicts: Vec::new() }
    }
}

/// Content of `leases`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct LeasesRecord {
    /// The number of the next lease.
    pub next: u64,
    /// Every lease; those that have ended go with the next change.
    pub leases: Vec<Lease>,
}

/// Asks for leases. What does not conflict is granted, also when another pattern of the request does.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ReserveRequest {
    /// For these patterns.
    pub paths: Vec<String>,
    /// For so long.
    pub ttl_seconds: u64,
    /// Alone.
    pub exclusive: bool,
    /// Why.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// What was granted and what was not.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Reserved {
    /// The leases that the agent holds now.
    pub granted: Vec<Lease>,
    /// The patterns that somebody else holds. One that is granted all the same is held on another host: between hosts
    /// conflicts are shown, not prevented.
    pub conflicts: Vec<LeaseConflict>,
}

/// A pattern that somebody else holds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LeaseConflict {
    /// The pattern that was asked for.
    pub path: String,
    /// The leases that stand against it.
    pub holders: Vec<Lease>,
    /// A path that both cover.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub example: Option<String>,
}

/// Which of the agent's own leases are meant.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct LeaseSelection {
    /// Those on these patterns, as they were asked for.
    pub paths: Vec<String>,
    /// Those with these numbers.
    pub ids: Vec<u64>,
    /// All.
    pub all: bool,
}

/// Gives leases back.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ReleaseRequest {
    /// Which.
    #[serde(flatten)]
    pub which: LeaseSelection,
}

/// Lets leases last longer, counted from now.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RenewRequest {
    /// Which.
    #[serde(flatten)]
    pub which: LeaseSelection,
    /// For so long.
    pub ttl_seconds: u64,
    /// One that lasts longer anyway stays as it is.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub at_least: bool,
}

/// What a release or a renewal did.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct LeasesChanged {
    /// The leases that were given back or renewed.
    pub changed: Vec<Lease>,
    /// What was named and is no lease of the agent, and why: never held, ended, or somebody else's.
    pub skipped: Vec<SkippedLease>,
}

/// A lease that was named and left alone.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SkippedLease {
    /// What was named.
    pub named: String,
    /// Why it was left alone.
    pub reason: String,
}

/// Asks for the leases that hold now.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ReservationsRequest {
    /// Only of this agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<AgentName>,
    /// Only those that overlap with this pattern.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
}
