//! From a directory and a configuration to an open store.
