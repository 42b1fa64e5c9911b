//! The same query gives the same answer by [`SearchQuery::matches`] and by SQLite's FTS5.

use fmail_api::{Message, MessageId};
use fmail_core::{SearchColumn, SearchQuery};
use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestRng, TestRunner};
use rusqlite::Connection;
use serde_json::{Value, json};

const COLUMNS: &str = r#"subject, body, tags, "from", "to", topic, thread, priority"#;

/// What a bareword or a quoted string is made of: scripts with and without case, marks, digits, no words at all.
const WORDS: &[&str] = &[
    "a",
    "b",
    "A",
    "one",
    "ones",
    "two",
    "x1",
    "1",
    "café",
    "CAFE",
    "cafe\u{301}",
    "naïve",
    "ΣΑΣ",
    "σασ",
    "Ёж",
    "ёж",
    "日本",
    "日本語",
    "🦀",
    "ǅ",
    "ế",
    "ß",
    "_",
    "snake_case",
    "नमस्ते",
    "한국어",
    "עברית",
    "עִבְרִית",
];
const NAMES: &[&str] = &["a", "b", "one", "two", "one-two", "a-b", "two-one-a", "x1"];
const FILTERS: &[&str] = &[
    "subject",
    "body",
    "tags",
    "from",
    "to",
    "topic",
    "thread",
    "priority",
    "Subject",
    "\"body\"",
    "- subject",
    "-from",
    "{subject body}",
    "{from to}",
    "- {subject body tags}",
    "{body}",
    "-{subject body tags from to topic thread priority}",
];

/// Messages in a table of FTS5, as a store with such a table would hold them; each has its place in the list as row.
struct Index {
    sqlite: Connection,
    messages: Vec<Message>,
}

impl Index {
    fn new(messages: Vec<Message>) -> Self {
        let sqlite = Connection::open_in_memory().unwrap();
        sqlite.execute_batch(&format!("CREATE VIRTUAL TABLE mail USING fts5({COLUMNS}); BEGIN")).unwrap();
        let insert = format!("INSERT INTO mail(rowid, {COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)");
        for (row, message) in messages.iter().enumerate() {
            let mut values = vec![rusqlite::types::Value::from(row as i64)];
            values.extend(SearchColumn::ALL.map(|column| column.text(message).into()));
            sqlite.execute(&insert, rusqlite::params_from_iter(values)).unwrap();
        }
        sqlite.execute_batch("COMMIT").unwrap();
        Index { sqlite, messages }
    }

    /// The rows that FTS5 finds, or what it says against the query.
    fn by_fts5(&self, expression: &str) -> Result<Vec<usize>, String> {
        let mut find = self.sqlite.prepare("SELECT rowid FROM mail WHERE mail MATCH ? ORDER BY rowid").unwrap();
        let rows = find.query_map([expression], |row| row.get::<_, i64>(0)).map_err(|error| error.to_string())?;
        rows.map(|row| row.map(|row| row as usize).map_err(|error| error.to_string())).collect()
    }

    /// The rows that we find by asking each message.
    fn by_asking(&self, query: &SearchQuery) -> Vec<usize> {
        (0..self.messages.len()).filter(|row| query.matches(&self.messages[*row])).collect()
    }
}

/// Runs the check on the same cases every time; `PROPTEST_CASES` asks for more of them.
fn check<S: Strategy>(cases: u32, strategy: &S, check: impl Fn(S::Value) -> Result<(), TestCaseError>) {
    let more = std::env::var("PROPTEST_CASES").ok().and_then(|text| text.parse().ok()).unwrap_or(0);
    let config = Config { cases: cases.max(more), failure_persistence: None, ..Config::default() };
    let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    TestRunner::new_with_rng(config, rng).run(strategy, check).unwrap_or_else(|error| panic!("{error}"));
}

fn texts(longest: usize) -> impl Strategy<Value = String> {
    let piece = (select(WORDS), select(&[" ", " ", ", ", "-", "\n", "\u{a0}", "🦀", "_", "…"][..]));
    proptest::collection::vec(piece, 0..longest)
        .prop_map(|pieces| pieces.iter().map(|(word, between)| format!("{word}{between}")).collect())
}

fn bodies() -> impl Strategy<Value = Value> {
    prop_oneof![
        3 => texts(12).prop_map(Value::from),
        // Long enough for words that stand in more than one set of 64 positions.
        1 => texts(300).prop_map(Value::from),
        3 => (texts(3), texts(3), any::<i16>())
            .prop_map(|(one, two, number)| json!({"one": one, "list": [two, number, null]})),
        1 => Just(Value::Null),
    ]
}

fn messages() -> impl Strategy<Value = Message> {
    let names = || proptest::collection::vec(select(NAMES), 0..3);
    let optional = || proptest::option::of(texts(4));
    let targets = (select(NAMES), any::<bool>(), names());
    (bodies(), optional(), optional(), names(), select(NAMES), targets, select(&["low", "normal", "high"][..]))
        .prop_map(|(body, subject, thread, tags, from, (to, direct, cc), priority)| {
            let to = if direct { format!("@{to}") } else { to.to_owned() };
            let fields = json!({
                "from": from, "to": to, "cc": cc, "body": body, "subject": subject, "thread": thread, "tags": tags,
                "priority": priority,
            });
            Message::from_value(fields, Some(MessageId::MIN), None).unwrap()
        })
}

/// A query, as we write it and as FTS5 does; they differ only in names behind a filter.
#[derive(Debug, Clone)]
struct Written {
    ours: String,
    plain: String,
}

impl Written {
    fn both(text: impl Into<String>) -> Self {
        let text = text.into();
        Written { ours: text.clone(), plain: text }
    }

    fn map(self, wrap: impl Fn(String) -> String) -> Self {
        Written { ours: wrap(self.ours), plain: wrap(self.plain) }
    }

    fn joined(self, between: &str, other: Written) -> Self {
        let join = |one: String, other: String| format!("{one}{between}{other}");
        Written { ours: join(self.ours, other.ours), plain: join(self.plain, other.plain) }
    }
}

fn phrases() -> impl Strategy<Value = String> {
    let quoted = texts(3).prop_map(|text| format!("\"{text}\""));
    let string = prop_oneof![4 => select(WORDS).prop_map(str::to_owned), 1 => quoted];
    let starred = (string, select(&["", "", "", "*", " *"][..])).prop_map(|(string, star)| format!("{string}{star}"));
    prop_oneof![3 => starred.clone(), 1 => proptest::collection::vec(starred, 1..4).prop_map(|all| all.join(" + "))]
}

fn groups() -> impl Strategy<Value = String> {
    let distance = select(&["", "", ",0", ", 1", ",2", ", 4", ",99999999999"][..]);
    let near = (proptest::collection::vec(phrases(), 1..4), distance)
        .prop_map(|(phrases, distance)| format!("NEAR({}{distance})", phrases.join(" ")));
    prop_oneof![6 => phrases(), 1 => phrases().prop_map(|phrase| format!("^{phrase}")), 1 => near]
}

fn items() -> impl Strategy<Value = Written> {
    let filtered = (select(FILTERS), groups()).prop_map(|(filter, group)| Written::both(format!("{filter} : {group}")));
    let columns = select(&["from", "to", "topic", "tags", "{from to}"][..]);
    let named = (columns, select(NAMES), select(&["", "@"][..])).prop_map(|(column, name, at)| Written {
        ours: format!("{column}:{at}{name}"),
        plain: format!("{column}:\"{name}\""),
    });
    prop_oneof![5 => groups().prop_map(Written::both), 2 => filtered, 1 => named]
}

fn queries() -> impl Strategy<Value = Written> {
    let row = |items: Vec<Written>| items.into_iter().reduce(|row, item| row.joined(" ", item)).unwrap();
    let rows = prop_oneof![3 => items(), 1 => proptest::collection::vec(items(), 2..4).prop_map(row)];
    rows.prop_recursive(6, 24, 2, |inner| {
        let operator = select(&[" AND ", " OR ", " NOT "][..]);
        prop_oneof![
            5 => (inner.clone(), operator, inner.clone()).prop_map(|(one, operator, other)| one.joined(operator, other)),
            2 => inner.clone().prop_map(|inner| inner.map(|text| format!("({text})"))),
            1 => (select(FILTERS), inner).prop_map(|(filter, inner)| inner.map(|text| format!("{filter}:({text})"))),
        ]
    })
}

#[test]
fn matches_and_fts5_find_the_same() {
    let every = SearchColumn::ALL.map(SearchColumn::name).join(" ");
    let cases = (proptest::collection::vec(messages(), 30), proptest::collection::vec(queries(), 100));
    check(40, &cases, |(messages, queries)| {
        let index = Index::new(messages);
        for Written { ours, plain } in queries {
            let query: SearchQuery = ours.parse().map_err(|error| TestCaseError::fail(format!("{ours}: {error:?}")))?;
            let native = query.to_fts5();
            prop_assert_eq!(Ok(index.by_asking(&query)), index.by_fts5(&native), "{} as {}", ours, native);
            // FTS5 looks in all columns where no filter stands; so do we when told.
            let everywhere: SearchQuery =
                format!("{{{every}}}:({plain})").parse().map_err(|error| TestCaseError::fail(format!("{error:?}")))?;
            prop_assert_eq!(Ok(index.by_asking(&everywhere)), index.by_fts5(&plain), "{}", plain);
        }
        Ok(())
    });
}

#[test]
fn what_fts5_cannot_read_is_refused_and_nothing_else() {
    let index = Index::new(Vec::new());
    let pieces = select(
        &[
            "AND", "OR", "NOT", "NEAR", "NEAR(", "(", ")", "{", "}", ":", ",", "+", "*", "^", "-", "\"", " ", " ", " ",
            "subject", "body", "subject:", "nowhere", "a", "b", "5", "é", "🦀", ".", "'", "@", "\u{1a}", "\u{b}",
            "\"q\"",
        ][..],
    );
    let texts = proptest::collection::vec(pieces, 1..12).prop_map(|pieces| pieces.concat());
    check(30_000, &texts, |text| {
        // A `*` at the start is a command to FTS5 itself, not a query.
        if !text.starts_with('*') {
            let (ours, theirs) = (text.parse::<SearchQuery>(), index.by_fts5(&text));
            prop_assert_eq!(ours.is_ok(), theirs.is_ok(), "{}: {:?}, {:?}", text, ours, theirs);
        }
        Ok(())
    });
}

#[test]
fn every_query_that_is_accepted_fits_into_fts5() {
    let index = Index::new(Vec::new());
    let nested = |before: &str, innermost: &str| format!("{}{innermost}{}", before.repeat(24), ")".repeat(24));
    let innermost = "-subject:NEAR(a b+c*)";
    let deep = [
        nested("(", innermost),
        nested("a NOT (", innermost),
        nested("a OR b AND c NOT (", innermost),
        nested("a OR b AND c NOT d e NOT -subject:(", innermost),
        nested("(a OR b) AND c NOT (", innermost),
    ];
    let twice = |text: &String| format!("{text} OR {text} AND {text} NOT {text}");
    let long = [
        "a NOT ".repeat(680) + "a",
        "a OR ".repeat(800) + "a",
        "a ".repeat(2000) + "a",
        "a+".repeat(1500) + "a",
        format!("NEAR({})", "a b* ".repeat(700)),
    ];
    for text in deep.iter().cloned().chain(deep.iter().map(twice)).chain(long) {
        let query: SearchQuery = text.parse().unwrap_or_else(|error| panic!("{text}: {error:?}"));
        assert_eq!(index.by_fts5(&query.to_fts5()), Ok(Vec::new()), "{text}");
    }
}

/// The words that SQLite cuts a text into, one list for each text.
fn words_by_fts5(texts: &[String]) -> Vec<Vec<String>> {
    let sqlite = Connection::open_in_memory().unwrap();
    let tables = "CREATE VIRTUAL TABLE texts USING fts5(text);
        CREATE VIRTUAL TABLE words USING fts5vocab(texts, instance);
        BEGIN";
    sqlite.execute_batch(tables).unwrap();
    for (row, text) in texts.iter().enumerate() {
        sqlite.execute("INSERT INTO texts(rowid, text) VALUES (?, ?)", (row as i64, text)).unwrap();
    }
    let mut words: Vec<Vec<(i64, String)>> = vec![Vec::new(); texts.len()];
    let mut all = sqlite.prepare("SELECT doc, offset, term FROM words").unwrap();
    let rows = all.query_map((), |row| Ok((row.get::<_, i64>(0)?, row.get(1)?, row.get(2)?))).unwrap();
    rows.map(Result::unwrap).for_each(|(row, offset, word)| words[row as usize].push((offset, word)));
    words
        .into_iter()
        .map(|mut words| {
            words.sort();
            words.into_iter().map(|(_, word)| word).collect()
        })
        .collect()
}

/// The words that we cut a text into, read off the canonical form of the phrase.
fn words_by_us(text: &str) -> Vec<String> {
    let query: SearchQuery = format!("\"{text}\"").parse().unwrap();
    query.to_string().trim_matches('"').split_whitespace().map(str::to_owned).collect()
}

#[test]
fn every_character_is_cut_and_folded_as_sqlite_does() {
    // Planes 3 to 13 are unassigned, 15 and 16 for private use; SQLite treats all of each alike.
    let assigned = (1..0x3_0000).chain(0xe_0000..0xe_1000);
    let codes = assigned.chain((0x3_0000..=0x10_ffff).step_by(0xfff));
    let characters: Vec<char> = codes.filter_map(char::from_u32).filter(|character| *character != '"').collect();
    let texts: Vec<String> = characters
        .chunks(200)
        .map(|some| some.iter().map(|character| format!("x{character}y {character} ")).collect())
        .collect();
    for (text, words) in texts.iter().zip(words_by_fts5(&texts)) {
        let ours = words_by_us(text);
        let differs = ours.iter().zip(&words).find(|(ours, theirs)| ours != theirs);
        assert!(ours == words, "{differs:x?} in {:x?}", text.chars().nth(1));
    }
}
