//! The table.

use std::fmt::Write as _;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fmail_api::{Result, Timestamp};

use super::stage::Stage;
use crate::document::{self, file_system, kernel};

/// The measurements in the order in which they were made.
#[derive(Default)]
pub struct Report {
    rows: Vec<Row>,
}

/// One measurement.
struct Row {
    what: String,
    figure: String,
    comparison: String,
    goal: String,
}

impl Report {
    /// A figure that stands for itself.
    pub fn figure(&mut self, what: impl Into<String>, figure: impl Into<String>) {
        self.rows.push(Row {
            what: what.into(),
            figure: figure.into(),
            comparison: String::new(),
            goal: String::new(),
        });
    }

    /// A figure with its ratio to another one.
    pub fn compared(&mut self, what: impl Into<String>, figure: impl Into<String>, ratio: f64, with: &str) {
        self.figure(what, figure);
        if let Some(row) = self.rows.last_mut() {
            row.comparison = format!("{ratio:.2} x {with}");
        }
    }

    /// The goal of the last row, and whether it is met.
    pub fn goal(&mut self, goal: &str, met: bool) {
        if let Some(row) = self.rows.last_mut() {
            row.goal = format!("{goal}: {}", if met { "met" } else { "missed" });
        }
    }

    /// The table as Markdown, with when and on what it was made.
    pub fn text(&self, stage: &Stage, rounds: usize) -> String {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let now = Timestamp::from_unix(now.as_secs() as i64, 0).to_string();
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let place = file_system(stage.directory());
        let (day, kernel, table) = (&now[..10], kernel(), self.table());
        format!("{day}, {cores} cores, Linux {kernel}, {place}, {rounds} rounds, medians:\n\n{table}")
    }

    /// The rows, every column as wide as its widest cell.
    fn table(&self) -> String {
        let mut text = String::new();
        let header = Row {
            what: "measurement".into(),
            figure: "figure".into(),
            comparison: "ratio".into(),
            goal: "goal".into(),
        };
        let width = |column: fn(&Row) -> &str| {
            self.rows.iter().chain([&header]).map(|row| column(row).chars().count()).max().unwrap_or(0)
        };
        let widths = [width(|row| &row.what), width(|row| &row.figure), width(|row| &row.comparison)];
        let last = width(|row| &row.goal);
        let mut line = |row: &Row| {
            let [what, figure, comparison] = widths;
            let _ = writeln!(
                text,
                "| {:what$} | {:>figure$} | {:comparison$} | {:last$} |",
                row.what, row.figure, row.comparison, row.goal
            );
        };
        line(&header);
        let dashes = |width: usize| "-".repeat(width);
        line(&Row {
            what: dashes(widths[0]),
            figure: format!("{}:", dashes(widths[1] - 1)),
            comparison: dashes(widths[2]),
            goal: dashes(last),
        });
        self.rows.iter().for_each(&mut line);
        text
    }
}

/// A time with three digits that matter.
pub fn shown(time: Duration) -> String {
    shown_seconds(time.as_secs_f64())
}

/// A time, perhaps a negative one, with three digits that matter.
pub fn shown_seconds(seconds: f64) -> String {
    let digits = |value: f64| match value.abs() {
        size if size < 10.0 => 2,
        size if size < 100.0 => 1,
        _ => 0,
    };
    let (value, unit) = if seconds.abs() < 1.0 { (seconds * 1e3, "ms") } else { (seconds, "s") };
    format!("{value:.*} {unit}", digits(value))
}

/// A place for a table in docs/benchmarks.md.
#[derive(Debug, Clone, Copy)]
pub enum Section {
    /// What fmail and its daemon cost.
    Main,
    /// What plugins cost.
    Plugins,
    /// Agents on MCP.
    Mcp,
    /// From host to host.
    Relay,
}

impl Section {
    const fn begin(self) -> &'static str {
        match self {
            Section::Main => "<!-- written by `cargo xtask bench --write` -->\n",
            Section::Plugins => "<!-- written by `cargo xtask bench --plugins --write` -->\n",
            Section::Mcp => "<!-- written by `cargo xtask bench --mcp --write` -->\n",
            Section::Relay => "<!-- written by `cargo xtask bench --relay --write` -->\n",
        }
    }
}

/// Puts the table between its marks in docs/benchmarks.md.
pub fn write(table: &str, section: Section) -> Result<()> {
    document::write("docs/benchmarks.md", section.begin(), table)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_three_digits_that_matter() {
        for (seconds, text) in [(0.0015, "1.50 ms"), (0.0125, "12.5 ms"), (0.25, "250 ms"), (-0.0004, "-0.40 ms")] {
            assert_eq!(shown_seconds(seconds), text);
        }
        assert_eq!(shown(Duration::from_millis(2_340)), "2.34 s");
    }

    #[test]
    fn the_table_is_markdown_with_even_columns() {
        let mut report = Report::default();
        report.figure("1 sender, Redis", "not measured");
        report.compared("1 sender", "p50 7 µs", 0.5, "NATS 2.15.1");
        report.goal("at most 1 x", true);
        let table = report.table();
        let lines: Vec<&str> = table.lines().collect();
        let expected = [
            "| measurement     |       figure | ratio              | goal             |",
            "| --------------- | -----------: | ------------------ | ---------------- |",
            "| 1 sender, Redis | not measured |                    |                  |",
            "| 1 sender        |     p50 7 µs | 0.50 x NATS 2.15.1 | at most 1 x: met |",
        ];
        assert_eq!(lines, expected);
    }
}
