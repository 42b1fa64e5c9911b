//! Git's configuration file format, as far as a repository's own file uses it.

use std::iter::Peekable;
use std::str::Chars;

/// The keys of a file in their order, as `section.subsection.key`; section and key in lower case, as git compares them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GitConfig(Vec<(String, String)>);

impl GitConfig {
    /// Reads what can be read. A line that git would refuse is passed over: a repository that git cannot use at the
    /// moment is no reason to lose a message.
    pub fn parse(text: &str) -> Self {
        let mut parser = Parser { rest: text.chars().peekable(), section: String::new(), entries: Vec::new() };
        parser.file();
        GitConfig(parser.entries)
    }

    /// The first value of a key; git fetches from the first url.
    pub fn first(&self, key: &str) -> Option<&str> {
        self.0.iter().find(|(name, _)| name == key).map(|(_, value)| value.as_str())
    }

    /// The last value of a key, which is the one that counts for a single setting.
    pub fn last(&self, key: &str) -> Option<&str> {
        self.0.iter().rev().find(|(name, _)| name == key).map(|(_, value)| value.as_str())
    }

    /// Adds a file that is read after this one.
    pub fn extend(&mut self, other: GitConfig) {
        self.0.extend(other.0);
    }
}

struct Parser<'a> {
    rest: Peekable<Chars<'a>>,
    section: String,
    entries: Vec<(String, String)>,
}

impl Parser<'_> {
    fn file(&mut self) {
        self.rest.next_if_eq(&'\u{feff}');
        while let Some(&next) = self.rest.peek() {
            match next {
                '#' | ';' => self.skip_line(),
                '[' => match self.header() {
                    Some(section) => self.section = section,
                    None => {
                        // Keys under a header that cannot be read belong to no section we know.
                        self.section = String::new();
                        self.skip_line();
                    }
                },
                c if c.is_ascii_alphabetic() => self.key(),
                c if c.is_whitespace() => {
                    self.rest.next();
                }
                _ => self.skip_line(),
            }
        }
    }

    fn skip_line(&mut self) {
        self.rest.by_ref().find(|c| *c == '\n');
    }

    fn skip_blanks(&mut self) {
        while self.rest.next_if(|c| matches!(c, ' ' | '\t' | '\r')).is_some() {}
    }

    /// `[section]`, `[section "Sub"]`, or the old `[section.sub]`. Only a quoted subsection keeps its case.
    fn header(&mut self) -> Option<String> {
        self.rest.next();
        let mut section = String::new();
        while let Some(c) = self.rest.next_if(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '.')) {
            section.push(c.to_ascii_lowercase());
        }
        self.skip_blanks();
        if self.rest.next_if_eq(&'"').is_some() {
            section.push('.');
            loop {
                match self.rest.next_if(|c| *c != '\n')? {
                    '"' => break,
                    '\\' => section.push(self.rest.next_if(|c| *c != '\n')?),
                    c => section.push(c),
                }
            }
        }
        self.rest.next_if_eq(&']').map(|_| section)
    }

    fn key(&mut self) {
        let mut key = format!("{}.", self.section);
        while let Some(c) = self.rest.next_if(|c| c.is_ascii_alphanumeric() || *c == '-') {
            key.push(c.to_ascii_lowercase());
        }
        self.skip_blanks();
        match self.rest.peek() {
            Some('=') => {
                self.rest.next();
                if let Some(value) = self.value() {
                    self.entries.push((key, value));
                }
            }
            // A key alone means yes.
            None | Some('\n' | '#' | ';') => self.entries.push((key, "true".into())),
            Some(_) => self.skip_line(),
        }
    }

    /// Up to the end of the line: quotes keep blanks and comment signs, a backslash at the end continues the line,
    /// blanks around the value do not count.
    fn value(&mut self) -> Option<String> {
        self.skip_blanks();
        let (mut value, mut quoted, mut keep) = (String::new(), false, 0);
        while let Some(c) = self.rest.next() {
            match c {
                '\n' if quoted => return None,
                '\n' => break,
                '"' => {
                    quoted = !quoted;
                    keep = value.len();
                }
                '#' | ';' if !quoted => {
                    self.skip_line();
                    break;
                }
                '\\' => {
                    match self.rest.next() {
                        Some('\n') => {}
                        Some('\r') if self.rest.next_if_eq(&'\n').is_some() => {}
                        Some('n') => value.push('\n'),
                        Some('t') => value.push('\t'),
                        Some('b') => value.push('\u{8}'),
                        Some(c @ ('"' | '\\')) => value.push(c),
                        _ => {
                            self.skip_line();
                            return None;
                        }
                    }
                    keep = value.len();
                }
                c => {
                    value.push(c);
                    if quoted || !c.is_whitespace() {
                        keep = value.len();
                    }
                }
            }
        }
        value.truncate(keep);
        (!quoted).then_some(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, url: Option<&str>) {
        assert_eq!(GitConfig::parse(text).first("remote.origin.url"), url, "{text}");
    }

    #[test]
    fn ordinary_files() {
        check("[core]\n\tbare = false\n[remote \"origin\"]\n\turl = a\n\tfetch = +refs/*\n[branch \"x\"]\n", Some("a"));
        check("[remote \"upstream\"]\n\turl = a\n", None);
        check("", None);
    }

    #[test]
    fn every_way_to_write_it() {
        check("[Remote \"origin\"]\nURL=a", Some("a"));
        check("[remote.Origin]\nurl = a", Some("a"));
        check("[remote \"Origin\"]\nurl = a", None);
        check("[remote \"origin\"] url = a\n", Some("a"));
        check("[remote \"origin\"] # mine\n; url = no\n url = a ; comment", Some("a"));
        check("[remote \"origin\"]\nurl = \"a b # c\"  # comment", Some("a b # c"));
        check("[remote \"origin\"]\nurl = https://\\\nexample.org/x", Some("https://example.org/x"));
        check("[remote \"origin\"]\r\n\turl = a\r\n", Some("a"));
        check("[remote \"ori\\gin\"]\nurl = a", Some("a"));
        check("\u{feff}[remote \"origin\"]\nurl = \"  a\\\\b \"", Some("  a\\b "));
    }

    #[test]
    fn the_first_url_and_the_last_setting_count() {
        check("[remote \"origin\"]\nurl = a\nurl = b", Some("a"));
        let config = GitConfig::parse("[core]\nbare\n[core]\nbare = false\n");
        assert_eq!((config.first("core.bare"), config.last("core.bare")), (Some("true"), Some("false")));
    }

    #[test]
    fn what_git_would_refuse_is_passed_over() {
        check("[remote \"origin\nurl = no\n[remote \"origin\"]\nurl = a", Some("a"));
        check("[remote \"origin\"]\n?\nurl oops\nurl = \"open\nurl = a", Some("a"));
        check("[remote \"origin\"]\nurl = \\q\nurl = a", Some("a"));
        check("[remote \"origin\"]\nurl = \"a", None);
        check("[[[\"\\", None);
    }
}
