//! Every command, each of its options and short forms, what it prints where, and its exit code.

mod agents;
mod claims;
mod discovery;
mod guard;
mod log;
mod mail;
mod permissions;
mod project;
mod quarantine;
mod reservations;
mod send;
mod threads;
mod upkeep;
mod waiting;
mod watch;
