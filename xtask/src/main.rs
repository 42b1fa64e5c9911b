//! `cargo xtask`: the commands that this repository needs beside cargo's own.

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use xtask::{bench, ci, clients, fixture, install, order, test, torture, uninstall};

#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", about = "Tests, installs and measures fmail")]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    Test(test::Test),
    Ci(ci::Ci),
    Install(install::Install),
    Uninstall(uninstall::Uninstall),
    Fixture(fixture::Fixture),
    Clients(clients::Clients),
    Bench(bench::Bench),
    Torture(torture::Torture),
    Order(order::Order),
}

fn main() -> ExitCode {
    let done = match Arguments::parse().task {
        Task::Test(task) => task.run(),
        Task::Ci(task) => task.run(),
        Task::Install(task) => task.run(),
        Task::Uninstall(task) => task.run(),
        Task::Fixture(task) => task.run(),
        Task::Clients(task) => task.run(),
        Task::Bench(task) => task.run(),
        Task::Torture(task) => task.run(),
        Task::Order(task) => task.run(),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            if let Some(help) = error.help_text() {
                eprintln!("  help: {help}");
            }
            ExitCode::from(error.kind().exit_code())
        }
    }
}
