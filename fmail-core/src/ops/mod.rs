//! One file per operation.

mod delegated;
#[cfg(test)]
mod delegated_tests;
mod delete;
mod digest;
mod fetch;
mod gc;
mod hello;
mod import;
mod inbox;
#[cfg(test)]
mod lease_tests;
mod log;
#[cfg(test)]
mod mail_tests;
mod mark;
mod nudge;
#[cfg(test)]
mod outage_tests;
mod read;
mod receipt;
mod records;
mod register;
mod relay;
mod release;
mod renew;
mod reply;
mod reservations;
mod reserve;
mod search;
mod send;
mod status;
pub(crate) mod thread;
mod topics;
mod watch;
mod who;
