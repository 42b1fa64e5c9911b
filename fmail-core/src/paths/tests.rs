use fmail_api::ErrorKind;

use super::{PathPattern, automaton, common, syntax};

fn pattern(text: &str) -> PathPattern {
    text.parse().unwrap_or_else(|error| panic!("{error}"))
}

fn check_matches(text: &str, covered: &[&str], others: &[&str]) {
    for path in covered {
        assert!(pattern(text).matches(path), "`{text}` covers `{path}`");
    }
    for path in others {
        assert!(!pattern(text).matches(path), "`{text}` does not cover `{path}`");
    }
}

#[test]
fn wildcards_stay_within_a_segment() {
    check_matches("src/*.rs", &["src/a.rs", "src/.rs", "src/é.rs"], &["src/api/a.rs", "a.rs", "src/a.rs.orig"]);
    check_matches("a?c", &["abc", "aéc", "a.c"], &["ac", "abbc", "a/c"]);
    check_matches("*", &[".env", "src/a.rs"], &[]);
    check_matches("src/*", &["src/a.rs", "src/api/v1/a.rs"], &["src", "lib/a.rs"]);
    check_matches("SRC", &["SRC/a"], &["src/a"]);
}

#[test]
fn classes_hold_single_characters_and_also_their_own_text() {
    check_matches("[a-cx]1", &["a1", "c1", "x1"], &["d1", "1", "ax1"]);
    check_matches("[!a-c]1", &["d1", "é1", "-1"], &["b1", "/1", "1"]);
    check_matches("[^a]1", &["b1", "^1"], &["a1"]);
    check_matches("[]a]", &["]", "a"], &["b"]);
    check_matches("[-a][a-]", &["-a", "a-"], &["ba"]);
    check_matches("[\\]\\-\\\\]", &["]", "-", "\\"], &["a"]);
    check_matches("a[ -~]b", &["a-b", "a.b"], &["a/b", "aéb"]);
    check_matches("app/[id]/page.tsx", &["app/[id]/page.tsx", "app/i/page.tsx"], &["app/id/page.tsx"]);
    check_matches("app/[[...slug]]/*.tsx", &["app/[[...slug]]/page.tsx"], &["app/slug/page.tsx"]);
    check_matches("app/[...all]", &["app/[...all]/page.tsx"], &[]);
}

#[test]
fn braces_hold_alternatives_and_without_a_comma_only_themselves() {
    check_matches("src/{api,db/pool}/*.rs", &["src/api/a.rs", "src/db/pool/a.rs"], &["src/db/a.rs", "src/pool/a.rs"]);
    check_matches("a{b,{c,d{e,}}}.x", &["ab.x", "ac.x", "ade.x", "ad.x"], &["a.x", "ae.x"]);
    check_matches("a/{,b}/c", &["a/c", "a/b/c"], &["a/b"]);
    check_matches("{**,a}/b", &["b", "a/b", "x/y/b"], &["a"]);
    check_matches("a{/**,}/b.x", &["a/b.x", "a/c/d/b.x"], &["b.x"]);
    check_matches("{{name}}/{*}", &["{{name}}/{x}"], &["name/x", "{name}/{x}"]);
    check_matches("{[,],\\,}", &[",", "[,]"], &["["]);
    check_matches("a,b", &["a,b"], &["a"]);
}

#[test]
fn double_stars_stand_for_any_number_of_segments() {
    check_matches("**/x.y", &["x.y", "a/x.y", "a/b/x.y"], &["ax.y", "a/x.y/b"]);
    check_matches("a/**/b.c", &["a/b.c", "a/x/b.c", "a/x/y/b.c"], &["b.c", "a/xb.c"]);
    check_matches("src/**", &["src", "src/a", "src/a/b.rs"], &["srcs", "a/src"]);
    check_matches("**", &["a", "a/b", ".x"], &["", "/", ".", "/a", "../a", "a/../b", "a\0b"]);
    check_matches("**/**/a.b/**/**", &["a.b", "x/a.b/y"], &["a"]);
}

#[test]
fn a_pattern_covers_all_below_it_unless_its_name_looks_like_a_files() {
    check_matches("src/api", &["src/api", "src/api/", "./src//api/./v1/a.rs"], &["src/api2", "src", "lib/src/api"]);
    check_matches("packages/*", &["packages/a/b/c.rs"], &["packages"]);
    check_matches(".github", &[".github/workflows/ci.yml"], &[]);
    check_matches("Cargo.toml", &["Cargo.toml"], &["Cargo.toml/a.rs"]);
    check_matches(".env.local", &[".env.local"], &[".env.local/a"]);
    check_matches("conf.d", &["conf.d"], &["conf.d/a"]);
    check_matches("conf.d/", &["conf.d", "conf.d/a"], &["conf"]);
    check_matches("conf.d/**", &["conf.d", "conf.d/a"], &["conf"]);
    check_matches("{a.b,c}", &["a.b", "c", "c/d"], &["a.b/d"]);
    check_matches("a[.]b", &["a.b/c"], &[]);
}

fn check_meet(left: &str, right: &str, witness: Option<&str>) {
    assert_eq!(pattern(left).witness(&pattern(right)).as_deref(), witness, "`{left}` and `{right}`");
    assert_eq!(pattern(left).intersects(&pattern(right)), witness.is_some(), "`{left}` and `{right}`");
    assert_eq!(pattern(right).intersects(&pattern(left)), witness.is_some(), "`{right}` and `{left}`");
}

#[test]
fn patterns_meet_in_a_path_that_both_cover() {
    check_meet("src/*.rs", "src/m*", Some("src/m.rs"));
    check_meet("**/x", "src/**", Some("src/x"));
    check_meet("src/api", "src/api/a.rs", Some("src/api/a.rs"));
    check_meet("src/api", "**/*.rs", Some("src/api/a.rs"));
    check_meet("app/**", "app/main.py", Some("app/main.py"));
    check_meet("[a-m]x", "[k-z]?", Some("kx"));
    check_meet("[!a]", "?", Some("b"));
    check_meet("{a,b}c", "?{c,d}", Some("ac"));
    check_meet("**", "**", Some("a"));
    check_meet("*.rs", "**", Some("a.rs"));
    check_meet(".*/*.rs", "**", Some(".a/a.rs"));
    check_meet("conf.d/", "conf.d/a", Some("conf.d/a"));
    check_meet("*/x", "y", Some("y/x"));
    check_meet("src/*/x", "src", Some("src/a/x"));
    check_meet("[id]", "\\[*", Some("[id]"));
}

#[test]
fn patterns_that_share_no_path_do_not_meet() {
    for (left, right) in [
        ("a*b", "*c"),
        ("src", "srcs"),
        ("src/*.rs", "src/*.py"),
        ("**/*.rs", "**/*.py"),
        ("Cargo.toml", "**/*.rs"),
        ("**/Cargo.toml", "**/README.md"),
        ("src/*.rs", "src/*/*.rs"),
        ("[a-c]", "[d-f]"),
        ("[!a]", "a"),
        ("a?", "a"),
        ("{a,b}", "{c,d}"),
        ("README.md", "readme.md"),
        // The only common spellings would be `.` and `..`, which name nothing.
        ("?", ".*"),
        ("??", "..*"),
    ] {
        check_meet(left, right, None);
    }
}

#[test]
fn texts_are_normalised_and_survive_storing() {
    for (written, shown) in [
        ("./src//api/", "src/api"),
        ("././src/./a.rs", "src/a.rs"),
        ("src/api/.", "src/api"),
        ("conf.d///", "conf.d/"),
        ("src/**/", "src/**"),
        ("{a.b,c}/", "{a.b,c}/"),
        ("a b/\\*[\\]]", "a b/\\*[\\]]"),
    ] {
        assert_eq!(pattern(written).to_string(), shown);
        let stored = serde_json::to_string(&pattern(written)).unwrap();
        assert_eq!(stored, serde_json::to_string(shown).unwrap());
        assert_eq!(serde_json::from_str::<PathPattern>(&stored).unwrap(), pattern(written));
    }
    assert!(serde_json::from_str::<PathPattern>("\"/etc\"").is_err());
}

#[test]
fn a_pattern_without_wildcards_tells_its_path() {
    for (text, path) in [
        ("./src//conf.d/", Some("src/conf.d")),
        ("a\\*/{{b}}", Some("a*/{{b}}")),
        ("a*", None),
        ("[a]", None),
        ("{a,b}", None),
        ("**", None),
        ("a?", None),
    ] {
        assert_eq!(pattern(text).plain_path().as_deref(), path, "{text}");
    }
}

#[test]
fn what_is_refused_is_named_with_advice() {
    for (text, found) in [
        ("", "it is empty"),
        (".", "names nothing below the project's root"),
        (".//./", "names nothing below the project's root"),
        ("/etc/passwd", "begins with `/`"),
        ("{,a}/b", "one of its alternatives begins with `/`"),
        ("{,a}", "one of its alternatives is empty"),
        ("..", "the segment `..`"),
        ("src/../x", "the segment `..`"),
        ("src/{a,.}{b,.}/x", "the segment `..`"),
        ("\\.\\.", "the segment `..`"),
        ("a/{.,b}/c", "the segment `.`"),
        ("!src", "a pattern cannot exclude paths"),
        ("a\0", "a NUL character"),
        ("[a", "a `[` without a `]`"),
        ("[]", "a `[` without a `]`"),
        ("[a/b]", "a `/` inside `[…]`"),
        ("[user-id]", "the range `r-i` in `[…]` runs backwards"),
        ("[[:alpha:]]", "a named class"),
        ("{a,b", "a `{` without a `}`"),
        ("a}", "a `}` without a `{`"),
        ("a\\", "it ends in `\\`"),
        ("src\\main", "`\\` stands before 'm'"),
        ("a\\/b", "`\\` stands before '/'"),
        ("**.rs", "`**` is not a whole segment"),
        ("a**", "`**` is not a whole segment"),
        ("a/***", "`**` is not a whole segment"),
        ("{**,a}b", "`**` is not a whole segment"),
    ] {
        let error = text.parse::<PathPattern>().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidRequest);
        assert!(error.message().contains(found), "{text}: {error}");
        assert!(error.help_text().is_some(), "{text}: {error}");
    }
}

#[test]
fn limits_are_named_and_what_reaches_them_is_accepted() {
    let refusal = |text: &str| text.parse::<PathPattern>().unwrap_err().message().to_string();
    pattern(&"a".repeat(1024));
    assert!(refusal(&"é".repeat(513)).contains("it has 1026 bytes, at most 1024 are allowed"));
    let nested = |depth: usize| format!("{}a{}", "{b,".repeat(depth), "}".repeat(depth));
    pattern(&nested(syntax::MAX_DEPTH));
    assert!(refusal(&nested(syntax::MAX_DEPTH + 1)).contains("more than 8 deep"));
    assert!(refusal(&nested(250)).contains("more than 8 deep"));
    assert!(refusal(&format!("{}a", "{,.}".repeat(250))).contains("more than 1200 states"));
}

/// The bound that the module states: each pair of states at most five times, each time with its edges.
pub(super) fn most_steps(left: &PathPattern, right: &PathPattern) -> usize {
    let edges = |pattern: &PathPattern| pattern.automaton.states.iter().map(|state| state.edges.len()).sum::<usize>();
    5 * (left.automaton.states.len() * right.automaton.states.len() + edges(left) * edges(right))
}

#[test]
fn patterns_made_to_be_difficult_stay_within_few_steps() {
    let fill = |unit: &str, end: &str| format!("{}{end}", unit.repeat((1024 - end.len()) / unit.len()));
    let nested = format!("{}a{}", "{a*,".repeat(8), "}".repeat(8));
    let hard = [
        fill("*a", "b"),
        fill("?*", "c"),
        fill("[!a]*", "d"),
        fill("**/a*/", "x.y"),
        fill("{*a,*b,}", "e"),
        fill(&nested, "f"),
        format!("*{}g", "a".repeat(1000)),
    ];
    let patterns: Vec<PathPattern> = hard.iter().map(|text| pattern(text)).collect();
    for (at, left) in patterns.iter().enumerate() {
        assert!(left.automaton.states.len() <= automaton::MAX_STATES);
        for right in &patterns[at..] {
            let steps = common::search(&left.automaton, &right.automaton).steps;
            assert!(steps <= most_steps(left, right), "{steps} steps for {left} and {right}");
            assert!(steps <= 3_000_000, "{steps} steps for {left} and {right}");
        }
    }
}
