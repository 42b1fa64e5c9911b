//! What a plugin says to the operator.

use std::fmt::Write;

use crate::plugin::gate::PATIENCE;
use tracing::{debug, error, info, trace, warn};

/// So much of one text is shown.
const MAX: usize = 8 * 1024;

/// The level above which a plugin need not even format anything, as `fm_level` counts.
pub fn level() -> u32 {
    match tracing::level_filters::LevelFilter::current().into_level() {
        None => 0,
        Some(tracing::Level::ERROR) => 1,
        Some(tracing::Level::WARN) => 2,
        Some(tracing::Level::INFO) => 3,
        Some(tracing::Level::DEBUG) => 4,
        Some(tracing::Level::TRACE) => 5,
    }
}

/// Passes on what a plugin says. The plugin's name is a field of the event, since not every log shows targets.
pub fn say(plugin: &str, level: u32, target: &[u8], message: &[u8], fields: &[u8]) {
    let (from, text, fields) = (shown(target), shown(message), shown(fields));
    match level {
        0 => {}
        1 => error!(target: "plugin", plugin, from, fields, "{text}"),
        2 => warn!(target: "plugin", plugin, from, fields, "{text}"),
        3 => info!(target: "plugin", plugin, from, fields, "{text}"),
        4 => debug!(target: "plugin", plugin, from, fields, "{text}"),
        _ => trace!(target: "plugin", plugin, from, fields, "{text}"),
    }
}

/// Says once for an instance that its plugin breaks rule 5.
pub fn warn_of_blocking(plugin: &str, function: &str) {
    let patience = PATIENCE.as_millis();
    warn!(
        target: "plugin",
        plugin,
        "`{function}` has not returned within {patience} ms, but must not block (rule 5 of fmail_plugin.h); it is called on \
         threads of its own from now on"
    );
}

/// Text on one line: control characters are escaped, so that nobody can forge a line of the log or steer a terminal. What
/// is too long is cut, and says so.
fn shown(bytes: &[u8]) -> String {
    let kept = &bytes[..bytes.len().min(MAX)];
    let mut text = String::with_capacity(kept.len());
    for character in String::from_utf8_lossy(kept).chars() {
        if character.is_control()
            || matches!(character, '\u{2028}' | '\u{2029}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
        {
            text.extend(character.escape_default());
        } else {
            text.push(character);
        }
    }
    if bytes.len() > MAX {
        // Writing into a string does not fail.
        let _ = write!(text, "… ({} bytes more)", bytes.len() - MAX);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_stays_on_its_line_and_within_its_length() {
        assert_eq!(shown("grüße\n\x1b[31m\u{202e}".as_bytes()), "grüße\\n\\u{1b}[31m\\u{202e}");
        assert_eq!(shown(b"\xffx"), "\u{fffd}x");
        let long = shown(&vec![b'a'; MAX + 5]);
        assert!(long.ends_with("a… (5 bytes more)") && long.len() < MAX + 30, "{}", long.len());
    }
}
