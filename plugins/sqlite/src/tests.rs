//! What cannot be seen from outside.
