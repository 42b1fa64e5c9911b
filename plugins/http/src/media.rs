//! What a client sends, and what it takes.

use axum::http::HeaderMap;
use axum::http::header::{ACCEPT, CONTENT_TYPE};

/// Events, one message each.
pub const EVENTS: &str = "text/event-stream";
/// One message.
pub const JSON: &str = "application/json";
/// One object a line.
pub const LINES: &str = "application/x-ndjson";

/// Whether a body of this type is read as JSON: one that says so, and one that says nothing.
pub fn is_json(headers: &HeaderMap) -> bool {
    let mut types = headers.get_all(CONTENT_TYPE).iter();
    let Some(first) = types.next() else { return true };
    let Ok(text) = first.to_str() else { return false };
    let essence = text.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    let json = essence == JSON || (essence.starts_with("application/") && essence.ends_with("+json"));
    types.next().is_none() && (json || essence.is_empty())
}

/// What a client takes, by its `Accept` headers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Accepts {
    /// Events are named.
    pub events: bool,
    /// JSON is named, or everything.
    pub json: bool,
    /// Nothing is named that we could send, so that what we have is as good as anything.
    pub anything: bool,
}

impl Accepts {
    /// Reads them. What cannot be read names nothing.
    pub fn of(headers: &HeaderMap) -> Accepts {
        let mut accepts = Accepts { events: false, json: false, anything: false };
        let mut everything = false;
        for range in headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok()).flat_map(|v| v.split(',')) {
            let mut parts = range.split(';').map(str::trim);
            let kind = parts.next().unwrap_or_default().to_ascii_lowercase();
            let refused = parts.any(|part| {
                let weight = part.strip_prefix("q=").or_else(|| part.strip_prefix("Q="));
                weight.and_then(|weight| weight.parse::<f32>().ok()) == Some(0.0)
            });
            match kind.as_str() {
                _ if refused => {}
                EVENTS => accepts.events = true,
                JSON | "application/*" => accepts.json = true,
                "*/*" => everything = true,
                _ => {}
            }
        }
        accepts.json |= everything;
        accepts.anything = everything || !(accepts.json || accepts.events);
        accepts
    }

    /// Whether an answer has to be a stream although it is one message.
    pub fn only_events(self) -> bool {
        self.events && !self.json
    }

    /// Whether a stream would be understood.
    pub fn takes_events(self) -> bool {
        self.events || self.anything
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(name: axum::http::HeaderName, values: &[&str]) -> HeaderMap {
        values.iter().map(|value| (name.clone(), value.parse().unwrap())).collect()
    }

    #[test]
    fn json_is_json_and_nothing_else_is() {
        for json in ["application/json", "Application/JSON; charset=utf-8", "application/vnd.x+json", ""] {
            assert!(is_json(&headers(CONTENT_TYPE, &[json])), "{json}");
        }
        assert!(is_json(&HeaderMap::new()));
        for other in ["text/plain", "text/json", "application/x-www-form-urlencoded", "application/jsonx", "x"] {
            assert!(!is_json(&headers(CONTENT_TYPE, &[other])), "{other}");
        }
        assert!(!is_json(&headers(CONTENT_TYPE, &["application/json", "text/plain"])));
    }

    #[test]
    fn events_are_sent_for_one_message_only_to_who_takes_nothing_else() {
        let accepts = |values: &[&str]| Accepts::of(&headers(ACCEPT, values));
        assert!(accepts(&["text/event-stream"]).only_events());
        assert!(accepts(&["application/json;q=0, text/event-stream"]).only_events());
        assert!(accepts(&["text/html, TEXT/event-stream; q=0.5"]).only_events());
        let either = [
            vec![],
            vec!["*/*"],
            vec!["text/html"],
            vec!["application/json"],
            vec!["application/json, text/event-stream"],
            vec!["application/json", "text/event-stream"],
            vec!["text/event-stream, */*;q=0.1"],
        ];
        for values in either {
            assert!(!accepts(&values).only_events(), "{values:?}");
        }
    }

    #[test]
    fn a_stream_goes_to_all_who_do_not_exclude_it() {
        let takes = |values: &[&str]| Accepts::of(&headers(ACCEPT, values)).takes_events();
        assert!(takes(&[]) && takes(&["*/*"]) && takes(&["text/event-stream"]) && takes(&["text/html"]));
        assert!(!takes(&["application/json"]));
    }
}
