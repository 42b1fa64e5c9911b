//! The rules of patterns once more, in the slow and obvious way: braces are written out, then everything is tried. It
//! shares no code with what it checks and expects patterns that parse.

#[derive(Clone, PartialEq)]
enum Token {
    Char(char),
    AnyChar,
    Star,
    DoubleStar,
    Class(Vec<char>),
    Slash,
}

/// Whether the pattern covers the path, which is already normal.
pub(super) fn covers(pattern: &str, path: &str) -> bool {
    let pattern: Vec<char> = pattern.chars().collect();
    let path: Vec<Vec<char>> = path.split('/').map(|segment| segment.chars().collect()).collect();
    written_out(&pattern).iter().any(|tokens| {
        let dot = [Token::Char('.')];
        let all: Vec<&[Token]> = tokens.split(|token| *token == Token::Slash).collect();
        let is_dropped = |segment: &[Token]| segment.is_empty() || segment == dot;
        let segments: Vec<&[Token]> = all.iter().copied().filter(|segment| !is_dropped(segment)).collect();
        let last = segments.last().copied().unwrap_or_default();
        let looks_like_file = last.iter().skip(1).any(|token| *token == Token::Char('.'));
        let names_directory = all.last().is_some_and(|segment| is_dropped(segment));
        path_matches(&segments, &path, names_directory || !looks_like_file)
    })
}

fn path_matches(pattern: &[&[Token]], path: &[Vec<char>], with_all_below: bool) -> bool {
    match pattern.split_first() {
        None => path.is_empty() || with_all_below,
        Some((segment, rest)) if **segment == [Token::DoubleStar] => {
            (0..=path.len()).any(|skipped| path_matches(rest, &path[skipped..], with_all_below))
        }
        Some((segment, rest)) => path
            .split_first()
            .is_some_and(|(name, names)| name_matches(segment, name) && path_matches(rest, names, with_all_below)),
    }
}

fn name_matches(pattern: &[Token], name: &[char]) -> bool {
    let Some((token, rest)) = pattern.split_first() else { return name.is_empty() };
    let one = |fits: bool| fits && name_matches(rest, &name[1..]);
    match token {
        Token::Char(own) => one(name.first() == Some(own)),
        Token::AnyChar => one(!name.is_empty()),
        Token::Star => (0..=name.len()).any(|skipped| name_matches(rest, &name[skipped..])),
        Token::Class(text) => {
            one(name.first().is_some_and(|found| class_has(text, *found)))
                || name.strip_prefix(&text[..]).is_some_and(|left| name_matches(rest, left))
        }
        Token::DoubleStar | Token::Slash => unreachable!("a pattern that parses has these only between segments"),
    }
}

fn class_has(text: &[char], character: char) -> bool {
    let inner = &text[1..text.len() - 1];
    let except = matches!(inner.first(), Some('!' | '^'));
    let mut members = &inner[usize::from(except)..];
    let mut found = false;
    while let Some(&low) = members.first() {
        let range = members.len() > 2 && members[1] == '-';
        let high = if range { members[2] } else { low };
        found |= low <= character && character <= high;
        members = &members[if range { 3 } else { 1 }..];
    }
    found != except
}

/// All the patterns without alternatives that a pattern stands for.
fn written_out(pattern: &[char]) -> Vec<Vec<Token>> {
    let then = |token: Token, rest: &[char]| -> Vec<Vec<Token>> {
        written_out(rest).into_iter().map(|tail| [vec![token.clone()], tail].concat()).collect()
    };
    match pattern {
        [] => vec![vec![]],
        ['\\', own, rest @ ..] => then(Token::Char(*own), rest),
        ['*', '*', rest @ ..] => then(Token::DoubleStar, rest),
        ['*', rest @ ..] => then(Token::Star, rest),
        ['?', rest @ ..] => then(Token::AnyChar, rest),
        ['/', rest @ ..] => then(Token::Slash, rest),
        ['[', ..] => then(Token::Class(pattern[..class_end(pattern)].to_vec()), &pattern[class_end(pattern)..]),
        ['{', rest @ ..] => match alternatives(pattern) {
            (end, alternatives) if alternatives.len() > 1 => {
                let heads = alternatives.into_iter().flat_map(written_out);
                let tails = written_out(&pattern[end..]);
                heads.flat_map(|head| tails.iter().map(move |tail| [head.clone(), tail.clone()].concat())).collect()
            }
            _ => then(Token::Char('{'), rest),
        },
        [own, rest @ ..] => then(Token::Char(*own), rest),
    }
}

/// Where the class at the beginning ends.
fn class_end(pattern: &[char]) -> usize {
    let first = if matches!(pattern[1], '!' | '^') { 2 } else { 1 };
    first + 1 + pattern[first + 1..].iter().position(|c| *c == ']').unwrap() + 1
}

/// The alternatives in the braces at the beginning, and where the braces end.
fn alternatives(pattern: &[char]) -> (usize, Vec<&[char]>) {
    let (mut depth, mut at, mut start, mut found) = (0, 0, 1, Vec::new());
    loop {
        match pattern[at] {
            '\\' => at += 1,
            '[' => at += class_end(&pattern[at..]) - 1,
            '{' => depth += 1,
            ',' if depth == 1 => {
                found.push(&pattern[start..at]);
                start = at + 1;
            }
            '}' if depth == 1 => {
                found.push(&pattern[start..at]);
                return (at + 1, found);
            }
            '}' => depth -= 1,
            _ => {}
        }
        at += 1;
    }
}
