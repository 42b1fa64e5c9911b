//! The protocol: what stands in a line, in both directions.

mod answer;
mod fields;
mod lines;
mod opening;
pub mod outgoing;
mod request;

pub use answer::{Style, answer, challenge, end, event, failure, ping};
pub use lines::{Line, LineReader};
pub use opening::{Challenge, Opening, auth, hello_with_nonce, opening};
pub use outgoing::{Heard, heard};
pub use request::{Call, Incoming, ReqId, parse};
