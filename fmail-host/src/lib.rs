//! From a directory and a configuration to an open store.
//!
//! Three questions are answered here, once for the command line and the daemon: which project is meant ([`Project`]),
//! what is configured ([`Settings`]), and which store that names ([`open_store`]) and how to get at it ([`Route`]).
//! Programs that serve many projects ask a fourth: which one a path means ([`Catalogue`]). All of them ask the outside world
//! through an [`Environment`], so that a test can give them another one. No subprocess is run: a command must cost
//! little more than the start of a process.

mod config;
pub mod daemon_lock;
mod environment;
mod file;
pub mod hosting;
mod near;
mod node;
mod open;
pub mod pairing;
pub mod path_text;
pub mod plugin;
mod project;
mod registry;
mod route;
mod secrets;
mod trust;

pub use config::{
    Ask, Check, ConfigFile, Durability, Entry, FoundProjects, Gc, Isolation, MIN_TOKEN, Mail, Origin, PluginCheck,
    PluginPlaces, PluginSettings, RelaySettings, Review, Secret, Settings, TcpSettings, TlsSettings, Watch,
    config_places,
};
pub use environment::{Environment, agent_name};
pub use fmail_backends::SystemClock;
pub use hosting::Catalogue;
pub use node::{known_node, node_file, this_node};
pub use open::{Serving, open_named, open_store, unserved};
pub use plugin::{
    Candidate, Capability, Manifest, Mistake, PluginFile, PluginForm, PluginName, PluginPlace, PluginSearch, Refusal,
    Resolved, Schema, StoreProfile, check_file,
};
pub use project::{Project, RootReason};
pub use registry::PluginKind;
pub use route::Route;
pub use secrets::{CertificateFiles, token_file};
pub use trust::{Standing, TrustNotes, Trusted};
