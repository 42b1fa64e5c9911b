//! The plugin boundary, tested and measured from both sides.
//!
//! [`LittleHost`] is a host without any of the real one's caution: it makes an instance of a plugin and passes calls on,
//! through the functions of `fmail_plugin.h`. [`mod@bench`] compares that with a call of the trait.

pub mod bench;
mod host;

pub use host::{LittleHost, Logged};
