//! What `cargo xtask` does, one module for each command.
//!
//! It is a library too, so that a test can ask for a [`fixture`] or for [`clients`] without starting a second cargo.

pub mod bench;
mod cargo;
pub mod ci;
pub mod clients;
mod document;
pub mod fixture;
pub mod install;
mod manifest;
pub mod order;
mod relink;
pub mod test;
mod tools;
pub mod torture;
pub mod uninstall;
