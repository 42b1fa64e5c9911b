//! The `fmail` command.

fn main() {}
