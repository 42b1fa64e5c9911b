//! A transport that is a plugin: `http` in a real daemon, spoken to with raw bytes.

mod places;
