//! The protocol: what stands in a line, in both directions.

mod answer;
mod fields;
mod lines;
pub mod outgoing;
mod request;

pub use answer::{Style, answer, end, event, failure, ping};
pub use lines::{Line, LineReader};
pub use outgoing::{Heard, heard};
pub use request::{Call, Incoming, ReqId, parse};
