//! Mailboxes and reservations on the wire: as lines, over a socket, and as the documentation shows them.

mod carried;
mod documented;
mod exchanges;
mod lines;
