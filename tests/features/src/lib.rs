//! Nothing but dependencies, with the features that the tests of other crates ask of them.
//!
//! Cargo chooses features by what it is asked to build. The tests want some that the programs do not; so `cargo build
//! --workspace`, which builds the programs that the tests run, and `cargo test --workspace` would each compile all of fmail. With
//! this crate among the members both choose the same.
