//! The names of plugins.

use std::fmt;
use std::str::FromStr;

use fmail_api::{Error, ErrorKind, Result};

/// The name of a plugin: 1 to 32 of `a-z`, `0-9` and `-`, a letter first. It becomes a part of file names and of variables,
/// so nothing else may be in it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PluginName(String);

impl PluginName {
    /// What is allowed, as an error says it.
    pub(crate) const ALLOWED: &'static str = "1 to 32 of a-z, 0-9 and -, a letter first";

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The file name of the library: `libfmail_my_store.so` for `my-store`.
    pub fn library(&self) -> String {
        format!("libfmail_{}{}", self.0.replace('-', "_"), std::env::consts::DLL_SUFFIX)
    }

    /// The file name of the program: `fmail-plugin-my-store` for `my-store`.
    pub fn program(&self) -> String {
        format!("fmail-plugin-{}", self.0)
    }

    /// The name as a part of an environment variable: `MY_STORE` for `my-store`.
    pub fn variable(&self) -> String {
        self.0.replace('-', "_").to_ascii_uppercase()
    }

    /// The name that a part of an environment variable means; names have no underscores, so there is only one.
    pub fn from_variable(text: &str) -> Result<PluginName> {
        if text.contains(|c: char| c.is_ascii_lowercase()) {
            return Err(wrong(text));
        }
        text.to_ascii_lowercase().replace('_', "-").parse()
    }
}

impl FromStr for PluginName {
    type Err = Error;

    fn from_str(text: &str) -> Result<PluginName> {
        let letter = text.starts_with(|c: char| c.is_ascii_lowercase());
        let rest = text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-');
        if letter && rest && text.len() <= 32 { Ok(PluginName(text.to_string())) } else { Err(wrong(text)) }
    }
}

fn wrong(text: &str) -> Error {
    let found = text.chars().take(60).collect::<String>().escape_debug().to_string();
    Error::new(
        ErrorKind::InvalidConfig,
        format!("`{found}` is no name of a plugin; allowed is {}", PluginName::ALLOWED),
    )
}

impl fmt::Display for PluginName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_lower_case_and_begin_with_a_letter() {
        for good in ["a", "sqlite", "my-store", "s3", &"x".repeat(32)] {
            assert_eq!(good.parse::<PluginName>().unwrap().as_str(), good);
        }
        for wrong in ["", "3s", "-a", "My", "a_b", "a.so", "a/b", "../a", "a b", "ä", &"x".repeat(33)] {
            let error = wrong.parse::<PluginName>().unwrap_err();
            assert!(error.message().contains("allowed is 1 to 32"), "{error}");
        }
    }

    #[test]
    fn files_and_variables_are_named_after_the_plugin() {
        let name: PluginName = "my-store".parse().unwrap();
        assert_eq!(name.program(), "fmail-plugin-my-store");
        assert!(name.library().starts_with("libfmail_my_store."), "{}", name.library());
        assert_eq!(PluginName::from_variable(&name.variable()).unwrap(), name);
        assert!(PluginName::from_variable("My_STORE").is_err());
    }
}
