//! Searching: a store that looks through its own index finds what reading every message would find.

use std::time::Duration;

use fmail_api::{ErrorKind, Event, Mark, Message, MessageId, Priority, Request, Response, SearchRequest, Since};
use serde_json::json;

use super::kit::Post;
use crate::case::{ensure, ensure_eq};
use crate::kit::refused;
use crate::{Bench, Case, Failure, Need, Verdict};

macro_rules! cases {
    ($($needs:expr => $($name:ident)*;)*) => {
        &[$($(Case { rule: super::MAIL, name: stringify!($name), needs: $needs, check: $name },)*)*]
    };
}

pub(super) static CASES: &[Case] = cases! {
    &[Need::Topics] => search_finds_exactly_what_fits search_shows_nothing_that_the_agent_may_not_read
    search_keeps_the_newest_and_tells_of_older_ones search_begins_where_it_is_told;
    &[] => search_finds_what_is_archived_and_not_what_is_gone search_of_an_empty_project_is_empty
    search_refuses_what_it_cannot_read;
};

/// The messages that the queries are asked of. Alice may read all but the last two; the third last she sent herself.
fn corpus(post: &Post) -> Verdict<Vec<MessageId>> {
    let messages = [
        post.send_with("build-bot", "code-review", "3 tests failed: parser::nested, parser::deep", |mut request| {
            request.subject = Some("Nightly build failed".into());
            request.tags = vec!["ci".into(), "needs-triage".into()];
            request
        }),
        post.send_with(
            "reviewer",
            "@alice",
            "Is the nightly failure a timeout again? See parser tests",
            |mut request| {
                request.priority = Priority::High;
                request
            },
        ),
        post.send_with("coder-1", "code-review", "Fixed the parser. Résumé of the change follows.", |mut request| {
            request.subject = Some("Parser: nested groups".into());
            request.thread = Some("RS-17".into());
            request
        }),
        post.send("build-bot-2", "deploy", json!({"error": "disk full", "host": "web-1", "free": 0})),
        post.send_with("coder-1", "@bob", "解析器 broke — see naïve_parser", |mut request| {
            request.cc = vec!["@alice".parse().unwrap_or_else(|error| panic!("{error}"))];
            request
        }),
        post.send("alice", "@bob", "the parser is yours now"),
        post.send("bob", "@carol", "the parser is a secret, and the nightly too"),
        post.send("carol", "@bob", json!({"parser": "also a secret"})),
    ];
    messages.into_iter().map(|message| message.map(|message| message.id)).collect()
}

/// The numbers of the messages that alice finds, counted from 1.
const FOUND: &[(&str, &[usize])] = &[
    ("nightly", &[1, 2]),
    ("NIGHTLY", &[1, 2]),
    ("night", &[]),
    ("night*", &[1, 2]),
    ("parser", &[1, 2, 3, 5, 6]),
    ("parser nested", &[1, 3]),
    ("\"tests failed\"", &[1]),
    ("\"failed tests\"", &[]),
    ("\"nightly fail\" *", &[2]),
    ("^parser", &[3]),
    ("NEAR(parser follows, 4)", &[3]),
    ("NEAR(parser follows, 3)", &[]),
    ("resume", &[3]),
    ("naive_parser", &[5]),
    ("naive", &[5]),
    ("解析器", &[5]),
    ("解析*", &[5]),
    ("\"disk full\"", &[4]),
    ("\"web-1\"", &[4]),
    ("free", &[4]),
    ("timeout OR disk", &[2, 4]),
    ("parser AND tests", &[1, 2]),
    ("parser NOT nested", &[2, 5, 6]),
    ("parser tests NOT nested OR disk", &[2, 4]),
    ("parser AND (timeout OR groups)", &[2, 3]),
    ("subject:parser", &[3]),
    ("-body:parser", &[3]),
    ("{subject tags}:failed", &[1]),
    ("from:reviewer", &[2]),
    ("from:build-bot", &[1, 4]),
    ("from:build-bot NOT from:\"bot 2\"", &[1]),
    ("from:alice", &[6]),
    ("alice", &[]),
    ("to:@bob", &[5, 6]),
    ("to:alice", &[2, 5]),
    ("topic:code-review parser", &[1, 3]),
    ("tags:needs-triage", &[1]),
    ("tags:(ci OR needs-triage)", &[1]),
    ("priority:high", &[2]),
    ("thread:RS-17", &[3]),
    ("secret", &[]),
    ("zebra", &[]),
    ("\"?!\"", &[]),
];

struct Found {
    ids: Vec<MessageId>,
    more: bool,
}

fn search(post: &Post, agent: &str, request: SearchRequest) -> Verdict<Found> {
    let (head, events) = post.ask(agent, Request::Search(request))?;
    let Response::Found { more } = head else {
        return Err(Failure::new(format!("a search is answered with {head:?}")));
    };
    let mut ids = Vec::new();
    for event in events {
        match event {
            Event::Message(delivery) => ids.push(delivery.message.id),
            other => return Err(Failure::new(format!("a search finds {other:?}"))),
        }
    }
    Ok(Found { ids, more })
}

fn asked(query: &str) -> SearchRequest {
    SearchRequest { query: query.into(), ..SearchRequest::default() }
}

fn search_finds_exactly_what_fits(bench: &Bench) -> Verdict {
    let post = Post::open(bench)?;
    let ids = corpus(&post)?;
    for (query, numbers) in FOUND {
        let found = search(&post, "alice", asked(query))?;
        let found: Vec<Option<usize>> =
            found.ids.iter().map(|id| ids.iter().position(|known| known == id).map(|place| place + 1)).collect();
        let expected: Vec<Option<usize>> = numbers.iter().copied().map(Some).collect();
        ensure_eq!(found, expected, "what `{query}` finds");
    }
    Ok(())
}

fn search_shows_nothing_that_the_agent_may_not_read(bench: &Bench) -> Verdict {
    let post = Post::open(bench)?;
    let ids = corpus(&post)?;
    for (agent, numbers) in [("bob", &[1, 3, 5, 6, 7, 8][..]), ("carol", &[1, 3, 7, 8]), ("dave", &[1, 3])] {
        let expected: Vec<MessageId> = numbers.iter().map(|number| ids[number - 1]).collect();
        ensure_eq!(search(&post, agent, asked("parser"))?.ids, expected, "what {agent} finds");
        // The limit counts what the agent may read, whatever else fits.
        let limited = SearchRequest { limit: Some(expected.len()), ..asked("parser") };
        let found = search(&post, agent, limited)?;
        ensure_eq!((found.ids, found.more), (expected, false), "what {agent} finds with a limit that is enough");
    }
    Ok(())
}

fn search_keeps_the_newest_and_tells_of_older_ones(bench: &Bench) -> Verdict {
    let post = Post::open(bench)?;
    let ids = corpus(&post)?;
    let fitting = [ids[0], ids[1], ids[2], ids[4], ids[5]];
    for limit in 0..=6 {
        let found = search(&post, "alice", SearchRequest { limit: Some(limit), ..asked("parser") })?;
        let expected = &fitting[fitting.len().saturating_sub(limit)..];
        ensure_eq!(found.ids, expected, "what a search for at most {limit} finds");
        ensure_eq!(found.more, limit < fitting.len(), "whether a search for at most {limit} left older ones out");
    }
    Ok(())
}

fn search_begins_where_it_is_told(bench: &Bench) -> Verdict {
    let post = Post::open(bench)?;
    let ids = corpus(&post)?;
    let since = |since| SearchRequest { since: Some(since), ..asked("parser") };
    ensure_eq!(search(&post, "alice", since(Since::Id(ids[1])))?.ids, [ids[2], ids[4], ids[5]], "what is behind an id");
    let ago = |time: Duration| since(Since::Time(post.now().before(time)));
    ensure_eq!(search(&post, "alice", ago(Duration::from_secs(3600)))?.ids.len(), 5, "what the last hour brought");
    let later = since(Since::Time(post.now().after(Duration::from_secs(3600))));
    ensure_eq!(search(&post, "alice", later)?.ids, [], "what comes in an hour");
    Ok(())
}

fn search_finds_what_is_archived_and_not_what_is_gone(bench: &Bench) -> Verdict {
    let post = Post::open(bench)?;
    let mail: Vec<Message> =
        ["parser one", "parser two"].iter().map(|body| post.send("bob", "@alice", *body)).collect::<Verdict<_>>()?;
    post.mark("alice", Mark::Archived, mail[0].id)?;
    ensure_eq!(search(&post, "alice", asked("parser"))?.ids, [mail[0].id, mail[1].id], "an archived message");
    if post.store.capabilities().remove {
        post.mark("alice", Mark::Deleted, mail[1].id)?;
        ensure_eq!(search(&post, "alice", asked("parser"))?.ids, [mail[0].id], "a message that is gone");
    }
    Ok(())
}

fn search_of_an_empty_project_is_empty(bench: &Bench) -> Verdict {
    let found = search(&Post::open(bench)?, "alice", asked("parser"))?;
    ensure!(found.ids.is_empty() && !found.more, "a search finds something where nothing is");
    Ok(())
}

fn search_refuses_what_it_cannot_read(bench: &Bench) -> Verdict {
    let post = Post::open(bench)?;
    for query in ["", "\"open", "parser AND", "parser (nested)", "tag:ci", "it's"] {
        let answer = post.ask("alice", Request::Search(asked(query)));
        refused(answer, ErrorKind::InvalidRequest, &format!("the query `{query}`"))?;
    }
    Ok(())
}
