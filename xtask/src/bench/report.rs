//! The table.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fmail_api::{Result, Timestamp};

use super::Extent;
use super::part::Part;
use super::stage::Stage;
use crate::document::{self, file_system, kernel};

/// The measurements in the order in which they were made.
#[derive(Default)]
pub struct Report {
    rows: Vec<Row>,
}

/// What a row says of a goal that is not met.
const MISSED: &str = "missed";

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
            row.goal = format!("{goal}: {}", if met { "met" } else { MISSED });
        }
    }

    /// The rows whose goal is missed, each in a line.
    pub fn missed(&self) -> Vec<String> {
        let missed = self.rows.iter().filter(|row| row.goal.ends_with(MISSED));
        missed.map(|row| format!("{}: {} {} ({})", row.what, row.figure, row.comparison, row.goal)).collect()
    }

    /// The table as Markdown, with when, on what and how it was made.
    pub fn text(&self, stage: &Stage, extent: &Extent, took: Duration) -> String {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let now = Timestamp::from_unix(now.as_secs() as i64, 0).to_string();
        let (day, machine, table) = (&now[..10], machine(stage.directory()), self.table());
        let Extent { rounds, turns, .. } = extent;
        let took = took.as_secs();
        format!(
            "{day}; {machine}. Where nothing else is said, medians of {rounds} repetitions of what is timed one by one, and of \
             {turns} turns of what is counted each second; measured in {took} s.\n\n{table}"
        )
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

/// What the figures depend on.
fn machine(directory: &Path) -> String {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let processor = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let processor = processor.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let processor = processor.map_or("unknown processor", |(_, name)| name);
    let memory = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let kilobytes = memory.lines().find_map(|line| line.strip_prefix("MemTotal:")?.split_whitespace().next());
    let gigabytes = kilobytes.and_then(|text| text.parse::<f64>().ok()).unwrap_or(0.0) / 1024.0 / 1024.0;
    let (kernel, place) = (kernel(), file_system(directory));
    format!("{cores} cores ({processor}), {gigabytes:.0} GB of memory, Linux {kernel}, {place}")
}

/// A number as people write it.
pub fn thousands(number: usize) -> String {
    match number {
        0..1_000 => number.to_string(),
        _ => format!("{},{:03}", thousands(number / 1_000), number % 1_000),
    }
}

/// Puts the table between its marks in docs/benchmarks.md.
pub fn write(table: &str, part: Part) -> Result<()> {
    document::write("docs/benchmarks.md", &part.mark(), table)
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
    fn numbers_are_written_as_people_do() {
        assert_eq!([999, 2_000, 100_000, 1_000_000].map(thousands), ["999", "2,000", "100,000", "1,000,000"]);
    }

    #[test]
    fn the_table_is_markdown_with_even_columns() {
        let mut report = Report::default();
        report.figure("1 sender, Redis", "not measured");
        report.compared("1 sender", "p50 7 µs", 0.5, "NATS 2.15.1");
        report.goal("at most 1 x", true);
        let table = report.table();
        let lines: Vec<&str> = table.lines().collect();
        assert!(report.missed().is_empty());
        let expected = [
            "| measurement     |       figure | ratio              | goal             |",
            "| --------------- | -----------: | ------------------ | ---------------- |",
            "| 1 sender, Redis | not measured |                    |                  |",
            "| 1 sender        |     p50 7 µs | 0.50 x NATS 2.15.1 | at most 1 x: met |",
        ];
        assert_eq!(lines, expected);
    }
}
