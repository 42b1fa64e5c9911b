//! Tables as SPEC.md shows them: headings, columns with four blanks between, nothing else.

/// The first column is at least as wide as in SPEC.md's examples.
const FIRST: usize = 9;
const GAP: usize = 4;

/// The lines of a table.
pub(crate) fn lines<const N: usize>(head: [&str; N], rows: &[[String; N]]) -> Vec<String> {
    let mut widths = head.map(|title| title.chars().count());
    if let Some(first) = widths.first_mut() {
        *first = (*first).max(FIRST);
    }
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let line = |cells: [&str; N]| {
        let mut text = String::new();
        for (cell, width) in cells.iter().zip(widths) {
            text.push_str(&format!("{cell:width$}{:GAP$}", ""));
        }
        text.truncate(text.trim_end().len());
        text
    };
    std::iter::once(line(head)).chain(rows.iter().map(|row| line(row.each_ref().map(String::as_str)))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_looks_like_the_specification() {
        let rows = [["task", "42", "5m ago"], ["status", "128", "2m ago"]].map(|row| row.map(String::from));
        let expected = [
            "TOPIC        MESSAGES    LAST ACTIVITY",
            "task         42          5m ago",
            "status       128         2m ago",
        ];
        assert_eq!(lines(["TOPIC", "MESSAGES", "LAST ACTIVITY"], &rows), expected);
    }
}
