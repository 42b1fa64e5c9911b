//! Until the manifest is read for what it says.

/// What a plugin says about itself.
#[derive(Debug, Clone)]
pub struct Manifest {
    /// Its JSON.
    pub text: String,
}
