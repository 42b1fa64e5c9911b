//! The store without a process around it.
