//! The requests about reservations, from their fields.

use fmail_api::{LeaseSelection, ReleaseRequest, RenewRequest, Request, ReservationsRequest, Result};

use super::fields::{Fields, missing};

pub fn reserve(fields: Fields) -> Result<Request> {
    // A reservation without an end, or one of nothing, is nobody's wish: what is left out here was forgotten.
    let fields = fields.needing("paths")?.needing("ttl_seconds")?;
    fields.checked("paths", Fields::paths)?.checked("reason", Fields::long_text)?.decode().map(Request::Reserve)
}

pub fn release(fields: Fields) -> Result<Request> {
    Ok(Request::Release(ReleaseRequest { which: which(fields)? }))
}

pub fn renew(mut fields: Fields) -> Result<Request> {
    let ttl_seconds = fields.required("ttl_seconds")?;
    let at_least = fields.or_default("at_least")?;
    Ok(Request::Renew(RenewRequest { which: which(fields)?, ttl_seconds, at_least }))
}

fn which(fields: Fields) -> Result<LeaseSelection> {
    if !["paths", "ids", "all"].iter().any(|name| fields.has(name)) {
        return Err(missing("paths").help("name reservations with `paths` or `ids`, or take `all`"));
    }
    fields.checked("paths", Fields::paths)?.decode()
}

/// Whose they are stands in `held_by`: `agent` says who asks, here as everywhere.
pub fn reservations(mut fields: Fields) -> Result<Request> {
    Ok(Request::Reservations(ReservationsRequest { agent: fields.agent("held_by")?, path: fields.long_text("path")? }))
}
