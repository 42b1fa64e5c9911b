//! Power cuts. What a store does to its files is recorded; from the recording, the states are made in which a disk may be
//! found when the power goes at any moment; and in each of them everything that was acknowledged has to be there.
//!
//! The number of states is bounded; what is left out is left out by chance, from a seed that every failure prints
//! and that `FMAIL_TEST_SEED` gives back. `FMAIL_TEST_FULL` looks at very many more.
//!
//! That the harness sees anything at all is shown by stores that lack one sync: each of them is caught.

mod account;
mod check;
#[path = "../common/mod.rs"]
mod common;
mod disk;
mod explore;
mod killed;
mod mutants;
mod rebooted;
mod record;
mod recording;
mod recovery;
mod scenarios;
mod sites;
mod stage;
mod survives;
