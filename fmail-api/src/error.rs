//! One error for every layer: what went wrong, where, and what to do.
//!
//! The kind decides four things at once, in one table: the code in a protocol answer, the status of a plugin call, the
//! exit code of the command line and whether a retry can help. No layer invents its own.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The result of everything in fmail.
pub type Result<T, E = Error> = std::result::Result<T, E>;

macro_rules! error_table {
    ($($(#[doc = $doc:literal])* $kind:ident, $code:literal, status $status:literal, exit $exit:literal, retryable $retry:literal;)*) => {
        /// What kind of failure it is. The numbers never change meaning; new kinds are added at the end.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum ErrorKind { $($(#[doc = $doc])* $kind,)* }

        impl ErrorKind {
            /// Every kind, in the order of the table.
            pub const ALL: &'static [ErrorKind] = &[$(ErrorKind::$kind,)*];

            /// The code of a protocol answer (`error.code` in PROTOCOL.md).
            pub const fn code(self) -> &'static str {
                match self { $(ErrorKind::$kind => $code,)* }
            }

            /// The status of a plugin call.
            pub const fn status(self) -> i32 {
                match self { $(ErrorKind::$kind => $status,)* }
            }

            /// The exit code of the command line.
            pub const fn exit_code(self) -> u8 {
                match self { $(ErrorKind::$kind => $exit,)* }
            }

            /// What it means, in a sentence. The documentation of the kind is the one place where it is written.
            pub const fn meaning(self) -> &'static str {
                match self { $(ErrorKind::$kind => concat!($($doc),*).trim_ascii(),)* }
            }

            /// Whether the same call may succeed later without any change.
            pub const fn retryable(self) -> bool {
                match self { $(ErrorKind::$kind => $retry,)* }
            }

            /// The kind with this protocol code.
            pub fn from_code(code: &str) -> Option<ErrorKind> {
                match code { $($code => Some(ErrorKind::$kind),)* _ => None }
            }
        }
    };
}

error_table! {
    /// The request or an argument breaks a rule; it can never succeed as it stands.
    InvalidRequest, "invalid_request", status -1, exit 2, retryable false;
    /// A topic or target name breaks the naming rule.
    InvalidTopic, "invalid_topic", status -1, exit 3, retryable false;
    /// An agent name breaks the naming rule, or does not match the target that was asked for.
    InvalidAgent, "invalid_agent", status -1, exit 4, retryable false;
    /// The project is not the one expected, or cannot be used (not a directory, a symlink, a newer format).
    InvalidProject, "invalid_project", status -1, exit 5, retryable false;
    /// The message is larger than the limit.
    TooLarge, "too_large", status -1, exit 6, retryable false;
    /// There is no such message, record, agent or file.
    NotFound, "not_found", status -2, exit 7, retryable false;
    /// Someone else was first: a taken name, a changed record, an ambiguous short id.
    Conflict, "conflict", status -3, exit 8, retryable false;
    /// Not allowed: another agent's mail, a file that may not be read, a project that may not be written.
    Denied, "denied", status -4, exit 9, retryable false;
    /// The backend cannot do this at all.
    Unsupported, "unsupported", status -5, exit 10, retryable false;
    /// Too much at once: the lock is held, ids have run ahead of the clock, a reader is too slow.
    Backpressure, "backpressure", status -6, exit 11, retryable true;
    /// A backend, a disk or a peer does not answer or refuses for now.
    Unavailable, "unavailable", status -6, exit 12, retryable true;
    /// Stored data cannot be understood. It is left as it is.
    Corrupt, "corrupt", status -8, exit 13, retryable false;
    /// The configuration cannot be used.
    InvalidConfig, "invalid_config", status -1, exit 14, retryable false;
    /// The message is stored, but it is not known whether it would survive a power cut.
    DurabilityUnknown, "durability_unknown", status -8, exit 15, retryable false;
    /// The cursor points to something that the store no longer holds; start again from an id or a time.
    Expired, "expired", status -2, exit 16, retryable false;
    /// The time that the caller allowed is over.
    Timeout, "timeout", status -7, exit 17, retryable true;
    /// The caller gave up.
    Cancelled, "cancelled", status -7, exit 18, retryable true;
    /// Nobody was there to be reached; nothing is stored.
    Unreached, "unreached", status -2, exit 19, retryable true;
    /// A defect in fmail or a plugin.
    Internal, "internal", status -8, exit 70, retryable false;
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.code())
    }
}

/// A failure: its kind, the sentence an operator reads, what to do about it, and what it came from.
///
/// `Display` is the one sentence. `Debug` adds the rest on lines of their own.
#[derive(Clone)]
pub struct Error(Box<Inner>);

#[derive(Clone)]
struct Inner {
    kind: ErrorKind,
    message: String,
    help: Option<String>,
    context: Vec<(&'static str, String)>,
    retryable: Option<bool>,
}

/// The form that an [`Error`] has in a protocol answer.
#[derive(Serialize, Deserialize)]
struct Wire {
    code: String,
    message: String,
    #[serde(default)]
    retryable: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    help: Option<String>,
}

impl Error {
    /// A failure of this kind, with the sentence that says what was found and what is allowed.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Error(Box::new(Inner { kind, message: message.into(), help: None, context: Vec::new(), retryable: None }))
    }

    /// Adds what the reader can do now.
    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.0.help = Some(help.into());
        self
    }

    /// Adds where it happened: a file, an operation, a key.
    #[must_use]
    pub fn context(mut self, name: &'static str, value: impl fmt::Display) -> Self {
        self.0.context.push((name, value.to_string()));
        self
    }

    /// The kind.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// The sentence, without its context.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// What the reader can do, if anything is known.
    pub fn help_text(&self) -> Option<&str> {
        self.0.help.as_deref()
    }

    /// Whether a retry can help: the kind's answer, unless the other side said otherwise.
    pub fn retryable(&self) -> bool {
        self.0.retryable.unwrap_or(self.0.kind.retryable())
    }

    /// An error of kind [`ErrorKind::InvalidRequest`].
    pub fn invalid(message: impl Into<String>) -> Self {
        Error::new(ErrorKind::InvalidRequest, message)
    }

    /// An error of kind [`ErrorKind::NotFound`].
    pub fn not_found(message: impl Into<String>) -> Self {
        Error::new(ErrorKind::NotFound, message)
    }

    /// An error of kind [`ErrorKind::Internal`].
    pub fn internal(message: impl Into<String>) -> Self {
        Error::new(ErrorKind::Internal, message)
    }

    /// An error of kind [`ErrorKind::Unsupported`]: this backend lacks `what`.
    pub fn unsupported(what: impl fmt::Display) -> Self {
        Error::new(ErrorKind::Unsupported, format!("this store cannot {what}"))
    }

    /// The error that an operating system call gave, with what was being done.
    pub fn io(doing: impl fmt::Display, error: &std::io::Error) -> Self {
        use std::io::ErrorKind as Io;
        let kind = match error.kind() {
            Io::NotFound => ErrorKind::NotFound,
            Io::PermissionDenied | Io::ReadOnlyFilesystem => ErrorKind::Denied,
            Io::IsADirectory | Io::InvalidInput => ErrorKind::InvalidRequest,
            _ => ErrorKind::Unavailable,
        };
        Error::new(kind, format!("{doing}: {error}"))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (_, value) in &self.0.context {
            write!(f, "{value}: ")?;
        }
        f.write_str(&self.0.message)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.0.kind, self.0.message)?;
        for (name, value) in &self.0.context {
            write!(f, "\n  {name}: {value}")?;
        }
        if let Some(help) = &self.0.help {
            write!(f, "\n  help: {help}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Error {}

impl Serialize for Error {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Wire {
            code: self.0.kind.code().into(),
            message: self.to_string(),
            retryable: self.retryable(),
            help: self.0.help.clone(),
        }
        .serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Error {
    /// An unknown code becomes [`ErrorKind::Internal`]; its `retryable` is believed only when it says true, as
    /// PROTOCOL.md asks.
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let wire = Wire::deserialize(deserializer)?;
        let (kind, message) = match ErrorKind::from_code(&wire.code) {
            Some(kind) => (kind, wire.message),
            None => (ErrorKind::Internal, format!("{} ({})", wire.message, wire.code)),
        };
        let mut error = Error::new(kind, message);
        error.0.help = wire.help;
        error.0.retryable = Some(wire.retryable);
        Ok(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_codes_are_distinct_and_never_zero_or_one() {
        let mut codes: Vec<u8> = ErrorKind::ALL.iter().map(|kind| kind.exit_code()).collect();
        assert!(codes.iter().all(|code| *code > 1));
        codes.sort_unstable();
        codes.dedup();
        assert_eq!(codes.len(), ErrorKind::ALL.len());
    }

    #[test]
    fn every_code_reads_back() {
        for kind in ErrorKind::ALL {
            assert_eq!(ErrorKind::from_code(kind.code()), Some(*kind));
        }
    }

    #[test]
    fn unknown_code_is_not_retryable_unless_it_says_so() {
        let plain: Error = serde_json::from_str(r#"{"code":"teapot","message":"short and stout"}"#).unwrap();
        assert!(!plain.retryable());
        let retry: Error = serde_json::from_str(r#"{"code":"teapot","message":"x","retryable":true}"#).unwrap();
        assert!(retry.retryable());
        assert_eq!(plain.to_string(), "short and stout (teapot)");
    }
}
