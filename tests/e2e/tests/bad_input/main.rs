//! Input that cannot be right: a clear error with its own exit code, no data on stdout, and nothing written.

mod arguments;
mod bodies;
mod configuration;
mod mail;
mod other_user;
mod projects;
