//! Every case that a plugin can be held to.

mod boundary;
mod relay;
mod transport;
mod wire;

use fmail_conformance::{Case, LogCase, Outcome, Verdict, cases as store_cases, log_cases, mail_cases};
use fmail_host::{PluginKind, StoreProfile};

use crate::which::Which;

/// A case of any kind.
pub struct AnyCase {
    pub rule: &'static str,
    pub name: &'static str,
    pub body: Body,
}

/// What it runs.
pub enum Body {
    Store(&'static Case),
    Log(&'static LogCase),
    Own(fn(&Which, bool) -> Verdict<Outcome>),
}

/// A case of this program.
pub struct OwnCase {
    pub rule: &'static str,
    pub name: &'static str,
    pub check: fn(&Which, bool) -> Verdict<Outcome>,
}

fn own(case: &'static OwnCase) -> AnyCase {
    AnyCase { rule: case.rule, name: case.name, body: Body::Own(case.check) }
}

fn store(case: &'static Case) -> AnyCase {
    AnyCase { rule: case.rule, name: case.name, body: Body::Store(case) }
}

fn log(case: &'static LogCase) -> AnyCase {
    AnyCase { rule: case.rule, name: case.name, body: Body::Log(case) }
}

/// The cases for a plugin of this kind, in their order: those that ask for the least first. What fails there fails in
/// many of the later ones too, where it is harder to see.
pub fn cases(kind: PluginKind, profile: StoreProfile) -> Vec<AnyCase> {
    let mut all: Vec<AnyCase> = Vec::new();
    if kind == PluginKind::Store && profile == StoreProfile::Log {
        all.extend(log_cases().map(log));
    }
    all.extend(boundary::ANY.iter().map(own));
    match kind {
        PluginKind::Store => {
            all.extend(boundary::STORES.iter().map(own));
            all.extend(store_cases().chain(mail_cases()).map(store));
        }
        PluginKind::Transport => all.extend(transport::CASES.iter().map(own)),
        PluginKind::Relay => all.extend(relay::CASES.iter().map(own)),
    }
    all
}

/// The case of this name.
pub fn find(rule: &str, name: &str) -> Option<AnyCase> {
    PluginKind::ALL
        .into_iter()
        .flat_map(|kind| cases(kind, StoreProfile::Log))
        .find(|case| case.rule == rule && case.name == name)
}
