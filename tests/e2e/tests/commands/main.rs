//! Every command, each of its options and short forms, what it prints where, and its exit code.

mod agents;
mod discovery;
mod guard;
mod log;
mod permissions;
mod project;
mod quarantine;
mod reservations;
mod send;
mod upkeep;
mod watch;
