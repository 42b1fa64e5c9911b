//! MCP Agent Mail over real operations and real stores, without a transport.

mod arguments;
mod client;
mod contract;
mod documents;
mod properties;
mod protocol;
mod real_client;
mod reservations;
mod resources;
mod samples;
mod sending;
mod shape;
mod subscriptions;
mod tools;
mod waiting;
