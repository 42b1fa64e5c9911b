//! The protocol: what stands in a line, in both directions.
//!
//! A request is written by [`outgoing`] and read by [`parse`]; its answer is written by [`answer()`], read by [`heard()`] and
//! understood by [`response()`].

mod answer;
mod decode;
mod fields;
mod heard;
mod lease;
mod lines;
mod mail;
mod opening;
pub mod outgoing;
mod request;
mod response;
mod writer;

pub use answer::{Style, add_event, answer, challenge, end, event, failure, ping};
pub use heard::{Heard, heard, heard_of};
pub use lines::{Line, LineReader};
pub use opening::{Challenge, Opening, auth, hello_with_nonce, opening};
pub use request::{Call, Form, Incoming, ReqId, parse};
pub use response::response;
