//! Comparing what a watch showed with what was sent.

use std::collections::{HashMap, HashSet};

use super::{Origin, Sent, Watched};

/// Each message exactly once, as it was sent, and what our own programs sent in ascending order in each mailbox.
pub fn check(watched: &Watched, sent: &Sent<'_>, wrong: &mut Vec<String>) {
    let name = &watched.name;
    let mut seen: HashSet<&str> = HashSet::new();
    let mut newest: HashMap<&str, &str> = HashMap::new();
    for message in &watched.seen {
        let id = message.id.as_str();
        if !seen.insert(id) {
            wrong.push(format!("{name} showed {id} twice"));
            continue;
        }
        if !watched.covers(&message.to) {
            wrong.push(format!("{name} showed {id}, which is for {}", message.to));
        }
        match sent.get(id) {
            None => wrong.push(format!("{name} showed {id}, which nobody sent")),
            Some((original, _)) if *original != message => {
                wrong.push(format!("{name} showed {message:?}, sent was {original:?}"));
            }
            Some((_, Origin::Acknowledged)) => {
                if let Some(before) = newest.insert(&message.to, id).filter(|before| *before > id) {
                    wrong.push(format!("disordered: {name} showed {before} and then {id} in {}", message.to));
                }
            }
            Some(_) => {}
        }
    }
    for (id, (message, origin)) in sent {
        let due = matches!(origin, Origin::Acknowledged | Origin::ByHand) && watched.covers(&message.to);
        if due && !seen.contains(id) {
            wrong.push(format!("{name} missed {id} from {} to {} ({origin:?})", message.from, message.to));
        }
    }
}
