//! Lines of the protocol that are broken in every way, and how long to go on making them.
//!
//! The tools that are led by coverage need a nightly toolchain, and what runs without it rolls dice over bytes, which in
//! JSON almost never get past the first brace. So this is a generator that knows what it breaks: it takes the valid lines
//! of [`corpus`], takes them apart into fields, and puts them together wrong, in the ways that [`Kind`] lists. The same
//! seed gives the same lines everywhere.
//!
//! Two tests use it: `tests/wire.rs` here, which holds the codec to its promises for a bounded time, and forged's
//! `hostile.rs`, which sends the lines to a running daemon. To repeat a failure, set `FMAIL_TEST_FUZZ_SEED` to the seed that it
//! printed; `FMAIL_TEST_FUZZ_SECONDS` says how long each test goes on.

mod budget;
mod bytes;
mod corpus;
mod dice;
mod fields;
mod kind;
mod values;

pub use budget::{first_seed, fuzz, seconds};
pub use corpus::{answers, requests};
pub use dice::Dice;
pub use kind::{Kind, broken, mutated, truncations};
