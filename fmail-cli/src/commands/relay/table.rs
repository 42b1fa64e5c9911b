//! The links to other hosts, as people read them.

use std::time::Duration;

use fmail_api::{Authentication, LinkCounts, LinkStatus, Passed, RelayView, Strangers, Timestamp};

use crate::render::{ago, on_one_line};
use crate::table;

const HEAD: [&str; 8] = ["PEER", "LINK", "SINCE", "RECEIVED", "SENT", "QUEUED", "ROUND TRIP", "HOW"];

/// A table, and below it what an operator has to know of single links.
pub(super) fn lines(view: &RelayView, now: Timestamp) -> Vec<String> {
    let links: Vec<&LinkStatus> = view.relays.iter().flat_map(|relay| &relay.links).collect();
    if links.is_empty() {
        return Vec::new();
    }
    let rows: Vec<[String; 8]> = links.iter().map(|link| row(link, now)).collect();
    let mut lines = table::lines(HEAD, &rows);
    for link in links {
        let peer = on_one_line(&link.peer);
        lines.extend(link.problem.iter().map(|problem| format!("{peer}: {}", on_one_line(problem))));
        lines.extend(counted(&link.counts).map(|counts| format!("{peer}: {counts}")));
    }
    lines
}

/// Who else has called, and was turned away.
pub(super) fn strangers(strangers: &Strangers, now: Timestamp) -> String {
    let callers = match strangers.count {
        1 => "1 caller was turned away".to_string(),
        count => format!("{count} callers were turned away, the last one"),
    };
    let (address, reason) = (on_one_line(&strangers.address), on_one_line(&strangers.reason));
    format!("{callers} {}, from {address}: {reason}", ago(now.since(strangers.at)))
}

fn row(link: &LinkStatus, now: Timestamp) -> [String; 8] {
    let host = link.node.as_ref().map(|node| on_one_line(&node.host)).filter(|host| *host != link.peer);
    let peer = on_one_line(&link.peer);
    [
        host.map_or_else(|| peer.clone(), |host| format!("{peer} ({host})")),
        if link.connected { "up" } else { "down" }.to_string(),
        ago(now.since(link.since)),
        passed(link.counts.received, link.last_received, now),
        match link.counts.unconfirmed {
            0 => passed(link.counts.sent, link.last_sent, now),
            written => format!("{} unconfirmed", passed(written, link.last_sent, now)),
        },
        match link.lag {
            // Nobody says what such a peer has.
            _ if link.plain && link.incoming => "?".to_string(),
            Some(lag) if link.queued > 0 => format!("{} (for {})", link.queued, brief(lag)),
            _ => link.queued.to_string(),
        },
        match (link.round_trip, link.answered) {
            (Some(took), Some(at)) => format!("{:.1} ms, {}", took.as_secs_f64() * 1e3, ago(now.since(at))),
            (Some(took), None) => format!("{:.1} ms", took.as_secs_f64() * 1e3),
            _ => "none".to_string(),
        },
        how(link),
    ]
}

/// How many messages, and when the last one: `12, 3s ago`
fn passed(count: u64, last: Option<Passed>, now: Timestamp) -> String {
    match last {
        Some(last) => format!("{count}, {}", ago(now.since(last.at))),
        None => count.to_string(),
    }
}

fn how(link: &LinkStatus) -> String {
    // What a peer has proved counts as long as it is there; of one that is not, it is told what it will have to prove.
    let proof = match link.authentication {
        Some(_) if link.connected && link.authenticated => "authenticated",
        Some(Authentication::Paired) => "paired",
        Some(Authentication::Token) => "token",
        Some(Authentication::Tls) => "certificate",
        None if link.authenticated => "authenticated",
        None => "unauthenticated",
    };
    let words = [
        Some(proof),
        Some(if link.encrypted { "encrypted" } else { "not encrypted" }),
        link.incoming.then_some("dials us"),
        link.plain.then_some("plain protocol"),
    ];
    words.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// What happened that is out of the ordinary; nothing when nothing did.
fn counted(counts: &LinkCounts) -> Option<String> {
    let parts: Vec<String> = [
        (counts.duplicates, "came twice"),
        (counts.refused, "refused here"),
        (counts.refused_there, "refused there"),
        (counts.relocated, "got another id here"),
    ]
    .into_iter()
    .filter(|(count, _)| *count > 0)
    .map(|(count, what)| format!("{count} {what}"))
    .collect();
    (!parts.is_empty()).then(|| parts.join(", "))
}

fn brief(time: Duration) -> String {
    ago(time).trim_end_matches(" ago").to_string()
}

#[cfg(test)]
mod tests {
    use fmail_api::RunningRelay;

    use super::*;

    #[test]
    fn a_link_is_one_row_and_its_troubles_stand_below() {
        let now: Timestamp = "2026-01-10T15:30:00Z".parse().unwrap();
        let earlier = |seconds| now.before(Duration::from_secs(seconds));
        let mut up = LinkStatus::new("host-b", earlier(600));
        up.connected = true;
        up.authenticated = true;
        up.encrypted = true;
        up.round_trip = Some(Duration::from_micros(1_540));
        up.answered = Some(earlier(2));
        up.counts.received = 12;
        up.last_received = Some(Passed { id: "20260110-152900-0001".parse().unwrap(), at: earlier(60) });
        up.counts.duplicates = 2;
        let mut down = LinkStatus::new("c:7463", earlier(30));
        down.problem = Some("nobody\nanswers".into());
        down.plain = true;
        down.queued = 3;
        down.lag = Some(Duration::from_secs(25));
        let relays = vec![RunningRelay { name: "peer".into(), links: vec![up, down] }];
        let lines = lines(&RelayView { relays, ..RelayView::default() }, now);
        assert_eq!(lines.len(), 5, "{lines:#?}");
        for (line, parts) in [
            (1, &["host-b", "up", "10m ago", "12, 1m ago", "1.5 ms, 2s ago", "authenticated, encrypted"][..]),
            (2, &["c:7463", "down", "3 (for 25s)", "none", "unauthenticated, not encrypted, plain protocol"]),
            (3, &["host-b: 2 came twice"]),
            (4, &["c:7463: nobody\\nanswers"]),
        ] {
            assert!(parts.iter().all(|part| lines[line].contains(part)), "{}", lines[line]);
        }
        assert!(super::lines(&RelayView::default(), now).is_empty());
    }

    #[test]
    fn a_peer_that_is_not_there_is_shown_with_what_it_has_to_prove_and_only_a_plain_one_as_unauthenticated() {
        let link = |authentication, encrypted| {
            let mut link = LinkStatus::new("host-b", "2026-01-10T15:30:00Z".parse().unwrap());
            (link.authentication, link.encrypted) = (authentication, encrypted);
            link
        };
        for (authentication, encrypted, shown) in [
            (Some(Authentication::Paired), true, "paired, encrypted"),
            (Some(Authentication::Token), false, "token, not encrypted"),
            (Some(Authentication::Tls), true, "certificate, encrypted"),
            (None, false, "unauthenticated, not encrypted"),
        ] {
            let mut link = link(authentication, encrypted);
            assert_eq!(how(&link), shown);
            (link.connected, link.authenticated) = (true, authentication.is_some());
            assert_eq!(how(&link).starts_with("authenticated"), authentication.is_some());
        }
    }

    #[test]
    fn what_was_only_written_is_told_from_what_was_stored() {
        let now: Timestamp = "2026-01-10T15:30:00Z".parse().unwrap();
        let mut link = LinkStatus::new("old", now);
        (link.incoming, link.plain, link.counts.unconfirmed) = (true, true, 7);
        let row = row(&link, now);
        assert_eq!((row[4].as_str(), row[5].as_str()), ("7 unconfirmed", "?"));
    }

    #[test]
    fn callers_who_were_turned_away_are_one_line() {
        let now: Timestamp = "2026-01-10T15:30:00Z".parse().unwrap();
        let one = Strangers { count: 1, address: "10.0.0.7:5".into(), reason: "GET /\n".into(), at: now };
        assert_eq!(strangers(&one, now), "1 caller was turned away 0s ago, from 10.0.0.7:5: GET /\\n");
        let more = Strangers { count: 3, at: now.before(Duration::from_secs(9)), ..one };
        assert!(strangers(&more, now).starts_with("3 callers were turned away, the last one 9s ago, from"));
    }
}
