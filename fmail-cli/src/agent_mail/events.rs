//! Server-sent events: the data of each, however the bytes arrive.

/// Takes a stream of bytes apart.
#[derive(Default)]
pub(super) struct Events {
    line: Vec<u8>,
    data: Option<Vec<u8>>,
    /// The last byte was a carriage return, which alone ends a line too.
    after_return: bool,
    /// The first line is over; before it there may be a mark of the byte order.
    begun: bool,
}

const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();

impl Events {
    /// The data of the events that end in these bytes.
    pub(super) fn push(&mut self, bytes: &[u8]) -> Vec<String> {
        let mut complete = Vec::new();
        for byte in bytes {
            match byte {
                b'\n' if self.after_return => {}
                b'\n' | b'\r' => complete.extend(self.end_of_line()),
                other => self.line.push(*other),
            }
            self.after_return = *byte == b'\r';
        }
        complete
    }

    /// What was left open by a stream that has ended. By the rules it does not count; but some servers leave out the last
    /// empty line, and half an answer is no JSON.
    pub(super) fn rest(mut self) -> Option<String> {
        self.end_of_line().or_else(|| self.end_of_line())
    }

    fn end_of_line(&mut self) -> Option<String> {
        let line = std::mem::take(&mut self.line);
        let line = match line.strip_prefix(BYTE_ORDER_MARK) {
            Some(rest) if !self.begun => rest,
            _ => &line,
        };
        self.begun = true;
        if line.is_empty() {
            return self.data.take().map(|data| String::from_utf8_lossy(&data).into_owned());
        }
        let (field, value) = match line.iter().position(|byte| *byte == b':') {
            Some(colon) => (&line[..colon], &line[colon + 1..]),
            None => (line, &[][..]),
        };
        // A line that begins with a colon is a comment. What else an event says is no concern of a single answer.
        if field == b"data" {
            let value = value.strip_prefix(b" ").unwrap_or(value);
            match &mut self.data {
                Some(data) => {
                    data.push(b'\n');
                    data.extend_from_slice(value);
                }
                None => self.data = Some(value.to_vec()),
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The events of a stream, whole and in pieces of every size.
    #[track_caller]
    fn check(stream: &str, expect: &[&str]) {
        for size in 1..=stream.len() {
            let mut events = Events::default();
            let mut found: Vec<String> = Vec::new();
            for piece in stream.as_bytes().chunks(size) {
                found.extend(events.push(piece));
            }
            found.extend(events.rest());
            assert_eq!(found, expect, "in pieces of {size}: {stream:?}");
        }
    }

    #[test]
    fn events_are_found_whatever_their_form_and_however_they_arrive() {
        check("data: {\"a\":1}\n\n", &["{\"a\":1}"]);
        check("event: message\ndata: x\n\n", &["x"]);
        check("data:x\r\n\r\ndata: y\r\n\r\n", &["x", "y"]);
        check("data: x\r\rdata: y\r\r", &["x", "y"]);
        check("\u{feff}data: x\n\n", &["x"]);
        check(": a comment\n\n: another\ndata: x\nid: 7\nretry: 10\n\n", &["x"]);
        check("data: {\ndata:   \"a\": 1\ndata: }\n\n", &["{\n  \"a\": 1\n}"]);
        check("data\n\n", &[""]);
        check("data:\ndata: x\n\n", &["\nx"]);
        check("datax: no\nDATA: no\ndata: yes\n\n", &["yes"]);
        check("data: ü\n\n", &["ü"]);
    }

    #[test]
    fn a_stream_without_events_has_none_and_a_last_one_without_its_empty_line_counts() {
        check("", &[]);
        check("\n\n\n", &[]);
        check(": ping\n\nevent: nothing\n\n", &[]);
        check("data: x", &["x"]);
        check("data: x\n", &["x"]);
    }
}
