//! The `fmail` command line, as a library: the binary runs it, and the tools that print man pages, completions and
//! documentation ask it for [`command()`]. The binary `fmail-gc-mail` runs [`gc_mail()`].
//!
//! One file per command under `commands/`. A command turns its arguments into types, calls an operation and renders the
//! answer; it knows no store by name. Standard output carries data and nothing else; notes and errors go to standard
//! error, each line of theirs beginning with `fmail: `.

mod agent_files;
mod agent_mail;
mod arguments;
mod body;
mod commands;
mod connected;
mod definition;
mod examples;
mod follow;
mod gc_mail;
mod guard;
mod identity;
mod inject;
mod leases;
mod mail;
mod mcp_server;
mod names;
mod output;
mod paths;
mod program;
mod render;
mod retrieval;
mod robot_help;
mod run;
mod session;
mod since;
mod state;
mod table;
mod wait;

pub use definition::command;
pub use gc_mail::gc_mail;
pub use run::run;
