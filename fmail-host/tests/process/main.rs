//! Plugins in a child process: what a program can do wrong, and that it never costs more than the calls it had.

mod hello;
mod kit;
mod leaving;
mod lines;
mod lost;
mod running;
mod waiting;
