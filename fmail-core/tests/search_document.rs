//! `docs/search.md` says what a search finds; here that is tried.

use std::fs;
use std::path::Path;

use fmail_api::{Message, MessageId};
use fmail_core::{SearchColumn, SearchQuery};

fn document() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/search.md");
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The messages of the page, in order.
fn messages(document: &str) -> Vec<Message> {
    let block =
        document.split("```json\n").nth(1).and_then(|rest| rest.split("```").next()).expect("a block of messages");
    let message = |line: &str| {
        let fields = serde_json::from_str(line).unwrap_or_else(|error| panic!("{line}: {error}"));
        Message::from_value(fields, Some(MessageId::MIN), None).unwrap_or_else(|error| panic!("{line}: {error}"))
    };
    block.lines().map(message).collect()
}

/// The cells of all tables whose first row begins so.
fn rows<'d>(document: &'d str, heading: &str) -> Vec<Vec<&'d str>> {
    let tables = document.split("\n\n").filter(|part| part.starts_with(heading));
    let cells = |row: &'d str| row.split('|').map(str::trim).skip(1).collect();
    tables.flat_map(|table| table.lines().skip(2).map(cells)).collect()
}

/// What stands between backquotes.
fn quoted(cell: &str) -> &str {
    cell.trim_matches('`')
}

#[test]
fn every_example_finds_what_the_page_says() {
    let document = document();
    let messages = messages(&document);
    let examples = rows(&document, "| query |");
    assert!(examples.len() >= 28, "{} examples", examples.len());
    for row in examples {
        let query: SearchQuery = quoted(row[0]).parse().unwrap_or_else(|error| panic!("{}: {error:?}", row[0]));
        let places = messages.iter().enumerate().filter(|(_, message)| query.matches(message));
        let found: Vec<String> = places.map(|(index, _)| (index + 1).to_string()).collect();
        assert_eq!(found.join(", "), row[1], "{}", row[0]);
    }
}

#[test]
fn what_the_page_calls_refused_is_and_what_it_offers_is_not() {
    let document = document();
    let examples = rows(&document, "| refused |");
    assert!(examples.len() >= 7, "{} examples", examples.len());
    for row in examples {
        let error = quoted(row[0]).parse::<SearchQuery>().expect_err(row[0]);
        assert!(error.help_text().is_some(), "{}: {error:?}", row[0]);
        assert!(quoted(row[1]).parse::<SearchQuery>().is_ok(), "{}", row[1]);
    }
}

#[test]
fn every_filter_is_in_the_list() {
    let document = document();
    let listed: Vec<&str> =
        rows(&document, "| filter |").iter().map(|row| quoted(row[0]).trim_end_matches(':')).collect();
    assert_eq!(listed, SearchColumn::ALL.map(SearchColumn::name));
}
