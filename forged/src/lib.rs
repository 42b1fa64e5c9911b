//! The command line of `forged`, for the tools that print it: man pages and completions. The daemon itself is the program.

pub mod arguments;

pub use arguments::command;
