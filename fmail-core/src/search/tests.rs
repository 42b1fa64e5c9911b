//! The language as a whole: what is read, what is refused, what is found.

use fmail_api::{ErrorKind, Message};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::column::ColumnSet;
use super::expression::{Expression, Phrase};
use super::parser::MAX_NESTING;
use super::{SearchColumn, SearchQuery};

fn query(text: &str) -> SearchQuery {
    text.parse().unwrap_or_else(|error| panic!("{text}: {error:?}"))
}

fn message(mut fields: Value) -> Message {
    let defaults = json!({"from": "build-bot", "to": "code-review", "body": ""});
    for (name, value) in defaults.as_object().unwrap() {
        fields.as_object_mut().unwrap().entry(name).or_insert(value.clone());
    }
    Message::from_value(fields, Some("20260110-153000-0001".parse().unwrap()), None).unwrap()
}

#[test]
fn the_canonical_text_is_the_shortest_that_means_the_same() {
    for (text, canonical) in [
        ("Deploy", "deploy"),
        ("  one\ttwo\nthree\r", "one two three"),
        ("one AND two AND three", "one two three"),
        ("one AND (two AND three)", "one two three"),
        ("((one)) OR ((two OR three))", "one OR two OR three"),
        ("one two OR three four", "one two OR three four"),
        ("a OR b AND c NOT d", "a OR b AND c NOT d"),
        ("((a OR b) AND c) NOT d", "((a OR b) AND c) NOT d"),
        ("a AND (b NOT c)", "a AND b NOT c"),
        ("(a NOT b) NOT c", "a NOT b NOT c"),
        ("a NOT (b NOT c)", "a NOT (b NOT c)"),
        ("(a AND b) NOT c d", "a b NOT c d"),
        ("a b AND (c OR d) AND e", "a b AND (c OR d) AND e"),
        ("\"One two\"", "\"one two\""),
        ("one + \"two three\"", "\"one two three\""),
        ("one * + two", "one* + two"),
        ("\"one two\" *", "\"one two\"*"),
        ("one + \"\" *", "one*"),
        ("one* + \"?\"", "one"),
        ("foo_bar", "\"foo bar\""),
        ("say \"\"\"hi\"\"\"", "say hi"),
        ("^one", "^one"),
        ("^ \"!\"", "\"\""),
        ("subject:^one", "subject:^one"),
        ("\"?\" one", "one"),
        ("one \"?\"", "one"),
        ("one AND \"?\"", "one AND \"\""),
        ("\"?\" \"!\"", "\"\""),
        ("NEAR", "near"),
        ("NEAR(one)", "one"),
        ("NEAR (one two, 10)", "NEAR(one two)"),
        ("NEAR(one + two three* \"-\" one + two, 007)", "NEAR(\"one two\" three*, 7)"),
        ("SUBJECT : one", "subject:one"),
        ("\"subject\" : one", "subject:one"),
        ("{body subject body} : one", "{subject body}:one"),
        ("- {subject} : (one)", "-subject:one"),
        ("subject : (one OR two)", "subject:(one OR two)"),
        ("subject : one two", "subject:one two"),
        ("a -subject:b", "a -subject:b"),
        ("a-subject:b", "a -subject:b"),
        ("and or not", "and or not"),
        ("\"AND\" near", "and near"),
    ] {
        assert_eq!(query(text).to_string(), canonical, "{text}");
        assert_eq!(query(canonical), query(text), "{text}");
    }
}

#[test]
fn a_name_needs_no_quotes_behind_a_filter_for_names() {
    for (text, canonical) in [
        ("from:build-bot", "from:\"build bot\""),
        ("to:@Bob", "to:bob"),
        ("to : @build-bot", "to:\"build bot\""),
        ("topic:code-rev*", "topic:\"code rev\"*"),
        ("tags:(needs-review OR on-hold) AND x", "tags:(\"needs review\" OR \"on hold\") AND x"),
        ("{from to}:build-bot x", "{from to}:\"build bot\" x"),
        ("thread:RS-20251230-cell-fate", "thread:\"rs 20251230 cell fate\""),
        ("from:a -subject:b", "from:a -subject:b"),
        ("from:^a-b", "from:^\"a b\""),
        ("from:NEAR(a-b c)", "from:NEAR(\"a b\" c)"),
    ] {
        assert_eq!(query(text).to_string(), canonical, "{text}");
    }
    for text in ["subject:build-bot", "{from body}:build-bot", "-from:build-bot", "from:a b-c", "@bob", "from:-a"] {
        assert!(text.parse::<SearchQuery>().is_err(), "{text}");
    }
}

/// The text, what the sentence has to say, and what the help has to.
const REFUSED: &[(&str, &str, &str)] = &[
    ("", "is empty", "from:bob"),
    (" \n", "is empty", ""),
    ("fmail-core", "ends where the `:` of a filter", "\"fmail-core\""),
    ("see fmail-core now", "found `now` at character 16", "double quotes"),
    ("a -b", "ends where the `:`", "NOT between"),
    ("it's", "found `'` at character 3", "double quotes"),
    ("a.b", "found `.` at character 2", "double quotes"),
    ("é \u{c} b", "found `\\u{c}` at character 3", ""),
    ("\"open", "begins at character 1 of the search query does not end", "close it"),
    ("a \"b\"\"", "begins at character 3", "written twice"),
    ("a AND", "ends where a word", ""),
    ("AND a", "found `AND` at character 1", "small letters"),
    ("a OR NOT b", "found `NOT` at character 6", "between two"),
    ("NOT a", "found `NOT` at character 1", "between two"),
    ("(a", "ends where AND, OR, NOT or `)`", ""),
    ("a)", "found `)` at character 2", "needs a `(`"),
    ("()", "found `)` at character 2", "something in between"),
    ("a (b)", "found `(` at character 3", "write AND"),
    ("(a) b", "found `b` at character 5", "write AND"),
    ("(a) (b)", "found `(` at character 5", "write AND"),
    ("a subject:(b)", "at character 3 of the search query has no AND", "write AND"),
    ("subject:(b) a", "found `a` at character 13", "write AND"),
    ("*", "found `*` at character 1", "auth*"),
    ("a**", "found `*` at character 3", ""),
    ("^", "ends where a word or a quoted string", ""),
    ("^^a", "found `^` at character 2", ""),
    ("a + ", "ends where a word", ""),
    ("a + ^b", "found `^` at character 5", ""),
    ("subject:", "ends where a word", ""),
    ("subject:body:a", "found `:` at character 13", ""),
    ("{subject}", "ends where the `:`", ""),
    ("{}:a", "found `}` at character 2", ""),
    ("{subject", "ends where the name of a column", ""),
    ("sujbect:a", "`sujbect` at character 1 of the search query is not a column", "did you mean `subject:`?"),
    ("a {body tag}:a", "`tag` at character 9", "did you mean `tags:`?"),
    ("http://x", "`http` at character 1", "double quotes"),
    ("NEAR()", "found `)` at character 6", ""),
    ("NEAR(a, b)", "found `b` at character 9 of the search query, where a distance", ""),
    ("NEAR(a, \"5\")", "found `5` at character 9", ""),
    ("NEAR(a, )", "found `)` at character 9 of the search query, where a distance", ""),
    ("NEAR(a OR b)", "found `OR` at character 8", ""),
    ("NEAR(NEAR(a))", "found `(` at character 10", ""),
    ("\"NEAR\"(a)", "found `(` at character 7", ""),
    ("near(a b)", "found `(` at character 5", ""),
    ("a\0b", "NUL as its character 2", "leave it out"),
];

#[test]
fn a_refusal_says_what_was_found_where_and_what_to_do() {
    for (text, sentence, help) in REFUSED {
        let error = text.parse::<SearchQuery>().expect_err(text);
        assert_eq!(error.kind(), ErrorKind::InvalidRequest, "{text}");
        assert!(error.to_string().contains(sentence), "{text}: {error:?}");
        assert!(error.help_text().unwrap_or_default().contains(help), "{text}: {error:?}");
    }
}

#[test]
fn length_and_nesting_are_limited() {
    let nested = |levels| format!("{}a{}", "(b OR ".repeat(levels), ")".repeat(levels)).parse::<SearchQuery>();
    assert!(nested(MAX_NESTING).is_ok());
    assert!(nested(MAX_NESTING + 1).unwrap_err().to_string().contains("at character 145"), "{:?}", nested(25));
    assert!("a".repeat(SearchQuery::MAX_BYTES).parse::<SearchQuery>().is_ok());
    assert!(
        "a".repeat(SearchQuery::MAX_BYTES + 1).parse::<SearchQuery>().unwrap_err().to_string().contains("4097 bytes")
    );
    let grows = "a*b*".repeat(1000).parse::<SearchQuery>().unwrap_err();
    assert!(grows.to_string().contains("when it is written out"), "{grows}");
}

#[test]
fn each_column_is_found_by_its_filter() {
    let message = message(json!({
        "subject": "Nightly build", "tags": ["needs-review"], "thread": "RS-7", "priority": "high",
        "recipients": ["@bob"], "body": {"error": "disk full", "code": 28},
    }));
    for text in [
        "nightly",
        "disk",
        "code",
        "28",
        "review",
        "subject:nightly",
        "body:\"disk full\"",
        "tags:needs-review",
        "from:build-bot",
        "to:code-review",
        "to:@bob",
        "topic:code-review",
        "thread:RS-7",
        "priority:high",
        "from:build",
        "from:bot",
        "-body:nightly",
        "{from to}:bob",
        "\"full code\"",
    ] {
        assert!(query(text).matches(&message), "{text}");
    }
    for text in [
        "bot",
        "bob",
        "high",
        "rs",
        "topic:bob",
        "subject:disk",
        "from:bob",
        "-subject:nightly",
        "subject:(from:build)",
    ] {
        assert!(!query(text).matches(&message), "{text}");
    }
}

#[test]
fn operators_phrases_and_groups_mean_what_they_say() {
    let message = message(json!({"subject": "Release", "body": "one two three four five Größe"}));
    for text in [
        "one two",
        "two one",
        "one OR nine",
        "one NOT nine",
        "\"one two three\"",
        "one + two",
        "thr*",
        "\"two thr\"*",
        "^one",
        "^release",
        "^\"one two\"",
        "NEAR(one four, 2)",
        "NEAR(four one, 2)",
        "NEAR(one five)",
        "one AND five",
        "release five",
        "GROSSE OR grosse OR groß* OR größe",
        "nine OR one NOT eight",
        "tw* + three",
    ] {
        assert!(query(text).matches(&message), "{text}");
    }
    for text in [
        "nine",
        "one nine",
        "one NOT two",
        "\"one three\"",
        "\"two one\"",
        "thr",
        "^two",
        "NEAR(one four, 1)",
        "\"\"",
        "one AND \"\"",
        "\"release one\"",
        "NEAR(release one)",
        "\"one tw\"",
        "one NOT (two OR nine)",
        "th* + three",
    ] {
        assert!(!query(text).matches(&message), "{text}");
    }
}

#[test]
fn the_match_expression_names_the_columns_of_each_phrase() {
    for (text, expression) in [
        ("a", "{subject body tags} : a"),
        ("from:build-bot", "from : \"build bot\""),
        ("subject:(a OR -body:b)", "subject : a OR subject : b"),
        ("subject:(a OR body:b)", "subject : a OR \"\""),
        ("to:(a AND (b NOT c NOT d))", "to : b NOT (to : c OR to : d) AND to : a"),
    ] {
        assert_eq!(query(text).to_fts5(), expression, "{text}");
    }
}

#[test]
fn terms_are_what_a_message_may_be_found_by() {
    assert_eq!(query("A b* OR subject:\"c a\" NOT (d OR NEAR(e f))").terms(), ["a", "b", "c"]);
}

#[test]
fn as_json_a_query_is_its_canonical_text() {
    let read: SearchQuery = serde_json::from_value(json!("from:a-b AND (X)")).unwrap();
    assert_eq!(serde_json::to_value(&read).unwrap(), json!("from:\"a b\" x"));
    assert!(serde_json::from_value::<SearchQuery>(json!("(")).unwrap_err().to_string().contains("has to follow"));
}

fn phrases() -> impl Strategy<Value = Phrase> {
    let string = ("[a-c]|two words|日本|émoji 🦀|[?]", any::<bool>());
    (proptest::collection::vec(string, 1..4), any::<bool>()).prop_map(|(strings, first)| {
        let mut phrase = Phrase::default();
        strings.iter().for_each(|(text, prefix)| phrase.append(text, *prefix));
        phrase.first = first && !phrase.is_empty();
        phrase
    })
}

fn near_groups() -> impl Strategy<Value = Expression> {
    (proptest::collection::vec(phrases(), 1..4), 0..20u32).prop_map(|(mut phrases, distance)| {
        phrases.iter_mut().for_each(|phrase| phrase.first = false);
        Expression::near(phrases, distance)
    })
}

fn expressions() -> impl Strategy<Value = Expression> {
    let leaf = prop_oneof![phrases().prop_map(Expression::Phrase), near_groups()];
    leaf.prop_recursive(5, 40, 2, |inner| {
        let columns = proptest::sample::subsequence(SearchColumn::ALL.to_vec(), 0..=SearchColumn::ALL.len());
        prop_oneof![
            (inner.clone(), inner.clone()).prop_map(|(one, other)| one.and(other)),
            (inner.clone(), inner.clone()).prop_map(|(one, other)| one.or(other)),
            (inner.clone(), inner.clone()).prop_map(|(one, other)| one.not(other)),
            (columns, inner).prop_map(|(columns, inner)| {
                let columns: ColumnSet = columns.into_iter().collect();
                Expression::Within { columns, inner: Box::new(inner) }
            }),
        ]
    })
}

proptest! {
    #[test]
    fn an_expression_printed_and_parsed_is_the_same(expression in expressions()) {
        let text = expression.to_string();
        prop_assert_eq!(super::parser::parse(&text).map_err(|error| format!("{text}: {error:?}")), Ok(expression));
    }

    #[test]
    fn no_text_breaks_the_parser(text in "(AND|OR|NOT|NEAR|[\"(){}:,+*^ -]|subject|[a-zé🦀.]){0,30}") {
        if let Ok(query) = text.parse::<SearchQuery>() {
            prop_assert_eq!(query.to_string().parse::<SearchQuery>().map_err(|error| error.to_string()), Ok(query));
        }
    }
}
