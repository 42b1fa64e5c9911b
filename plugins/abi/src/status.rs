//! How a call ended: `enum fm_status` of the header.

/// Done; the body is the answer.
pub const OK: i32 = 0;
/// A stream has delivered everything.
pub const END: i32 = 1;
/// A request or a configuration that can never be accepted.
pub const INVALID: i32 = -1;
/// There is no such thing.
pub const NOT_FOUND: i32 = -2;
/// Someone else was first; nothing has changed.
pub const CONFLICT: i32 = -3;
/// Not allowed.
pub const DENIED: i32 = -4;
/// A method that this side does not have.
pub const UNSUPPORTED: i32 = -5;
/// Not now: the same call may succeed later.
pub const UNAVAILABLE: i32 = -6;
/// Given up.
pub const CANCELLED: i32 = -7;
/// A defect, or data that cannot be understood.
pub const INTERNAL: i32 = -8;
/// The plugin caught itself failing.
pub const PANIC: i32 = -9;
