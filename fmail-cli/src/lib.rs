//! The definition of the command line, shared with the tools that print it.
