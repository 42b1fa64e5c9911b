//! How much each target holds, counted by the database.

use fmail_api::{Query, Scope, Summary, Target, TargetSummary, Timestamp};
use rusqlite::{Connection, OptionalExtension};

use crate::errors::Outcome;
use crate::messages::id_of;

/// Whether a query asks for nothing but a scope, so that the places alone answer it.
pub(crate) fn is_plain(query: &Query) -> bool {
    *query == Query { scope: query.scope.clone(), ..Query::default() }
}

/// Counts the messages of each target in the scope.
pub(crate) fn summary(connection: &Connection, scope: &Scope) -> Outcome<Summary> {
    let mut found = Vec::new();
    match scope {
        Scope::Target(target) => found.extend(count(connection, target)?),
        _ => {
            let sql = "SELECT target, count(*), max(id) FROM places GROUP BY target";
            let mut all = connection.prepare_cached(sql)?;
            let rows = all.query_map((), |row| Ok((row.get::<_, String>(0)?, row.get(1)?, row.get(2)?)))?;
            for row in rows {
                let (name, messages, last) = row?;
                let target: Target = name.parse()?;
                if scope.contains(&target) {
                    found.push((target, messages, last));
                }
            }
        }
    }
    found.sort_unstable_by(|one, other| one.0.cmp(&other.0));
    let mut time = connection.prepare_cached("SELECT time, nanos FROM messages WHERE id = ?")?;
    let mut targets = Vec::with_capacity(found.len());
    for (target, messages, last) in found {
        let last_time = time.query_row([last], |row| Ok(Timestamp::from_unix(row.get(0)?, row.get(1)?)))?;
        targets.push(TargetSummary { target, messages: messages.unsigned_abs(), last: id_of(last), last_time });
    }
    Ok(Summary { targets })
}

fn count(connection: &Connection, target: &Target) -> Outcome<Option<(Target, i64, i64)>> {
    let sql = "SELECT count(*), max(id) FROM places WHERE target = ? HAVING count(*) > 0";
    let mut one = connection.prepare_cached(sql)?;
    let row = one.query_row([target.to_string()], |row| Ok((row.get(0)?, row.get(1)?))).optional()?;
    Ok(row.map(|(messages, last)| (target.clone(), messages, last)))
}
