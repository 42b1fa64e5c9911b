//! Plugins: what the boundary costs, and stores beside each other.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use fmail_api::{Error, Result};

use super::report::{Report, shown_seconds, thousands};
use super::stage::Stage;
use crate::cargo;
use crate::install::doing;

/// How much is measured.
struct Extent {
    /// Batches of calls.
    batches: u32,
    /// How long each turn of durable sends takes.
    turn: Duration,
    /// Messages in a scan.
    messages: u32,
}

/// Adds the rows of this measurement.
pub fn measure(stage: &Stage, extent: &super::Extent, report: &mut Report) -> Result<()> {
    let Extent { batches, turn, messages } = match extent.quick {
        true => Extent { batches: 40, turn: Duration::from_millis(50), messages: 500 },
        false => Extent { batches: 1_000, turn: Duration::from_millis(500), messages: 10_000 },
    };
    let bench = Plugins::set(stage)?;
    let calls = bench.figures(&["calls", &bench.directory("calls")?, &batches.to_string()])?;
    boundary(&calls, report)?;
    let (turn, turns, many) = (turn.as_millis().to_string(), extent.turns.to_string(), messages.to_string());
    let figures = bench.figures(&["stores", &bench.directory("stores")?, &turn, &turns, &many])?;
    stores(&figures, messages, report)
}

/// The plugins, in their place.
pub struct Plugins<'a> {
    stage: &'a Stage,
    /// The libraries and programs that lie elsewhere.
    others: PathBuf,
}

impl<'a> Plugins<'a> {
    /// Builds what cargo does not.
    pub fn set(stage: &'a Stage) -> Result<Self> {
        let others = stage.directory().join("plugins");
        std::fs::create_dir_all(&others).map_err(doing("creating", &others))?;
        let examples = cargo::workspace().join("plugins/examples");
        let library = others.join("libfmail_example_c.so");
        let mut cc = Command::new("cc");
        cc.args(["-shared", "-fPIC", "-std=c99", "-O2", "-fvisibility=hidden", "-pthread", "-I"]);
        cc.arg(cargo::workspace().join("plugins/sdk/include")).arg("-o").arg(&library);
        cargo::run(cc.arg(examples.join("c-memory/store.c")))?;
        let program = "fmail-plugin-example-python";
        let (from, to) = (examples.join("python-memory").join(program), others.join(program));
        std::fs::copy(&from, &to).map_err(doing("copying", &from))?;
        Ok(Plugins { stage, others })
    }

    /// A directory of its own, as the program is told it.
    fn directory(&self, name: &str) -> Result<String> {
        let directory = self.stage.directory().join(format!("plugins-{name}"));
        std::fs::create_dir_all(&directory).map_err(doing("creating", &directory))?;
        Ok(directory.display().to_string())
    }

    /// A command that finds the plugins.
    fn with_plugins(&self, mut command: Command) -> Command {
        let programs = self.stage.programs();
        let path = format!("{}:{}", self.others.display(), programs.display());
        command.env("FMAIL_PLUGIN_PATH", path).env("FMAIL_PLUGIN_HOST", programs.join("fmail"));
        command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command
    }

    /// A call of the program that measures.
    pub fn cost(&self, arguments: &[&str]) -> Command {
        self.with_plugins(self.stage.command(
            &self.stage.programs().join("fmail-cost"),
            self.stage.directory(),
            arguments,
        ))
    }

    /// What the program prints: `<what>\t<seconds>` for each figure.
    fn figures(&self, arguments: &[&str]) -> Result<Figures> {
        let mut command = self.cost(arguments);
        let output = command
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .output()
            .map_err(|error| Error::io(format_args!("starting `{}`", cargo::describe(&command)), &error))?;
        if !output.status.success() {
            return Err(Error::internal(format!("`{}` failed: {}", cargo::describe(&command), output.status)));
        }
        let text = String::from_utf8_lossy(&output.stdout);
        let pairs = text.lines().filter_map(|line| line.split_once('\t'));
        Ok(Figures(pairs.filter_map(|(what, seconds)| Some((what.into(), seconds.parse().ok()?))).collect()))
    }

    /// A call of `fmail` on one of the stores.
    pub fn fmail(&self, project: &Path, store: &str, arguments: &[&str]) -> Command {
        let mut command = self.with_plugins(self.stage.fmail(project, arguments));
        command.env("FMAIL_STORE", store).env("FMAIL_ROOT", project);
        command
    }
}

/// Seconds, by what they were measured of.
struct Figures(HashMap<String, f64>);

impl Figures {
    fn get(&self, what: &str) -> Result<f64> {
        self.0.get(what).copied().ok_or_else(|| Error::internal(format!("`{what}` was not measured")))
    }

    /// A row for a time, beside the one that it is compared with.
    fn row(&self, report: &mut Report, text: &str, what: &str, rival: (&str, &str), goal: Option<f64>) -> Result<()> {
        let (figure, other) = (self.get(what)?, self.get(rival.0)?);
        report.compared(text, micro(figure), figure / other, rival.1);
        if let Some(goal) = goal {
            report.goal(&format!("at most {goal} x"), figure / other <= goal);
        }
        Ok(())
    }
}

/// What one call costs, wherever it is answered.
fn boundary(figures: &Figures, report: &mut Report) -> Result<()> {
    let near = "in process";
    for (method, goal) in [("get", 1.5), ("append", 1.5), ("scan", 1.3)] {
        let what = if method == "scan" { "`scan`, per message".into() } else { format!("`{method}`") };
        let rival = format!("{method} in process");
        report.figure(format!("{what}, in process with the same JSON"), micro(figures.get(&rival)?));
        figures.row(report, &format!("{what}, library"), &format!("{method} library"), (&rival, near), Some(goal))?;
    }
    let rival = ("get in process", near);
    figures.row(report, "`get`, library in a child, 1 in flight", "get child 1", rival, None)?;
    figures.row(report, "`get`, library in a child, 64 in flight", "get child 64", rival, None)?;

    let rival = ("read in process", near);
    report.figure("log profile: `read`, in process with the same lines", micro(figures.get(rival.0)?));
    for (text, name) in [
        ("Rust library", "example-rust"),
        ("C library", "example-c"),
        ("Python program, 1 in flight", "example-python 1"),
        ("Python program, 64 in flight", "example-python 64"),
    ] {
        figures.row(report, &format!("log profile: `read`, {text}"), &format!("read {name}"), rival, None)?;
    }
    Ok(())
}

/// Stores as forged opens them: those that are built in, and plugins.
fn stores(figures: &Figures, messages: u32, report: &mut Report) -> Result<()> {
    let rate = |what: &str, store: &str| Ok::<_, Error>(1.0 / figures.get(&format!("{what} {store}"))?);
    // Each kind of promise has its built-in store, which the plugins are compared with.
    let durable = ("files", &[("sqlite", "`sqlite`")][..]);
    let examples = [
        ("example-rust", "Rust example"),
        ("example-c", "C example"),
        ("example-python", "Python example, in a child"),
    ];
    for (promise, (base, rivals)) in [("durable", durable), ("in memory", ("memory", &examples[..]))] {
        for senders in [1, 16, 64] {
            let (what, text) = (format!("append {senders}"), format!("{promise} appends, {senders} at once"));
            let ours = rate(&what, base)?;
            report.figure(format!("{text}, built-in `{base}`"), format!("{ours:.0} messages/s"));
            for (store, name) in rivals {
                let figure = rate(&what, store)?;
                report.compared(format!("{text}, {name}"), format!("{figure:.0} messages/s"), figure / ours, base);
            }
        }
        let text = format!("scan of {}, per message", thousands(messages as usize));
        let ours = figures.get(&format!("scan {base}"))?;
        report.figure(format!("{text}, built-in `{base}`"), micro(ours));
        for (store, name) in rivals {
            let rival = (format!("scan {base}"), base);
            figures.row(report, &format!("{text}, {name}"), &format!("scan {store}"), (&rival.0, rival.1), None)?;
        }
    }
    Ok(())
}

/// A short time with three digits that matter.
fn micro(seconds: f64) -> String {
    match seconds * 1e6 {
        micros if micros < 10.0 => format!("{micros:.2} µs"),
        micros if micros < 100.0 => format!("{micros:.1} µs"),
        micros if micros < 1_000.0 => format!("{micros:.0} µs"),
        _ => shown_seconds(seconds),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_times_have_three_digits_that_matter() {
        for (seconds, text) in
            [(1.5e-6, "1.50 µs"), (27.13e-6, "27.1 µs"), (312e-6, "312 µs"), (2.5e-3, "2.50 ms"), (4e-7, "0.40 µs")]
        {
            assert_eq!(micro(seconds), text);
        }
    }

    #[test]
    fn a_figure_that_is_missing_is_told_and_not_left_out() {
        let figures = Figures(HashMap::from([("get in process".into(), 1e-6)]));
        let error = boundary(&figures, &mut Report::default()).unwrap_err();
        assert!(error.message().contains("`get library` was not measured"), "{error}");
    }
}
