//! Who may connect.

use fmail_plugin::tracing;
use tokio_tungstenite::tungstenite::handshake::server::{Callback, ErrorResponse, Request, Response};
use tokio_tungstenite::tungstenite::http::header::{AUTHORIZATION, HeaderName, ORIGIN};
use tokio_tungstenite::tungstenite::http::{HeaderMap, StatusCode};

use crate::config::Config;

/// Looks at the headers of a client before it is let in.
pub struct Doorman<'a>(pub &'a Config);

impl Callback for Doorman<'_> {
    fn on_request(self, request: &Request, response: Response) -> Result<Response, ErrorResponse> {
        match refused(self.0, request.headers()) {
            None => Ok(response),
            Some((status, why)) => {
                tracing::warn!(%status, why, "a client was refused");
                let mut answer = ErrorResponse::new(Some(why.to_string()));
                *answer.status_mut() = status;
                Err(answer)
            }
        }
    }
}

/// Why a client with these headers is refused.
fn refused(config: &Config, headers: &HeaderMap) -> Option<(StatusCode, &'static str)> {
    let text = |name: HeaderName| headers.get(name).map(|value| value.to_str().unwrap_or_default());
    if let Some(origin) = text(ORIGIN)
        && !config.origins.iter().any(|allowed| allowed == origin)
    {
        return Some((StatusCode::FORBIDDEN, "this page may not connect: its origin is not in `origins`"));
    }
    let token = config.token.as_deref()?;
    let given = text(AUTHORIZATION).and_then(|value| value.strip_prefix("Bearer "));
    match given {
        Some(given) if equal(given.as_bytes(), token.as_bytes()) => None,
        Some(_) => Some((StatusCode::UNAUTHORIZED, "the token is not the one that is configured")),
        None => Some((StatusCode::UNAUTHORIZED, "a token is needed: Authorization: Bearer <token>")),
    }
}

/// Compares without telling by the time it takes how much was right.
fn equal(one: &[u8], other: &[u8]) -> bool {
    one.len() == other.len() && one.iter().zip(other).fold(0, |differs, (a, b)| differs | (a ^ b)) == 0
}
