//! One file per operation.

mod gc;
mod hello;
mod log;
mod register;
mod relay;
mod send;
mod status;
mod topics;
mod watch;
mod who;
