//! The built-in stores: `files`, the default, and `memory`.
