//! A client of Agent Mail servers, ours or anybody's: JSON-RPC in one POST, answered in JSON or as a stream of events.
//!
//! It fails closed: whatever is not the answer to the request is an error with the kind that fits, and nothing of it is
//! taken for a result. A redirect is told and not followed, since the token would go with it.

mod address;
mod answer;
mod client;
mod configured;
mod events;
mod exchange;
mod failure;

pub(crate) use address::{Address, Endpoint, PatienceFlag, ServerFlags, TOKEN_VARIABLE};
pub(crate) use client::Client;
