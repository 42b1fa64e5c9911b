//! The protocol: what stands in a line, in both directions.

mod answer;
mod fields;
mod lines;
mod request;

pub use answer::{Style, accepted, answer, end, event, failure, ping};
pub use lines::{Line, LineReader};
pub use request::{Call, Incoming, ReqId, parse};
