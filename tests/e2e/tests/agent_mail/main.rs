//! MCP Agent Mail in a real daemon, with the real plugin: one system with the command line, and without the defects that
//! the users of the upstream server know.

mod defects;
mod hanging;
mod office;
mod one_system;
mod outage;
mod projects;
mod restart;
