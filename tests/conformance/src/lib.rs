//! The conformance suite: one case per rule of the contract.
