//! `fmail plugin-host`: a library in a process of its own, which it can take down without anyone else noticing more than an
//! error.

use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::time::Duration;

use fmail_abi::Calls;
use fmail_api::{Error, ErrorKind, Result};
use fmail_host::plugin::{Instance, Manifest, Process, Program};
use futures::StreamExt;
use futures::executor::block_on;

/// Longer than anything here takes, however loaded the machine is.
const LONG: Duration = Duration::from_secs(60);

/// Builds `tests/plugins/hostile/<source>.c`. The directory goes when it is dropped.
fn built(source: &str) -> (tempfile::TempDir, PathBuf) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let directory = tempfile::tempdir().unwrap();
    let library = directory.path().canonicalize().unwrap().join("libfmail_hostile.so");
    let output = Command::new("cc")
        .args(["-std=c99", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-pthread", "-I"])
        .arg(root.join("plugins/sdk/include"))
        .arg("-o")
        .args([&library, &root.join("tests/plugins/hostile").join(source).with_extension("c")])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    (directory, library)
}

/// An instance of a library in a child.
fn start(library: &Path, deadline: Duration) -> Result<Instance> {
    let fmail = env!("CARGO_BIN_EXE_fmail");
    let command = vec![fmail.into(), "plugin-host".into(), "--".into(), library.into()];
    start_program(Program::new("hostile", command, deadline)?)
}

fn start_program(program: Program) -> Result<Instance> {
    let (name, deadline) = (program.name.clone(), program.deadline);
    let calls = Arc::new(Calls::new());
    let manifest = Process::greeted(program.clone())?;
    let manifest = Arc::new(Manifest::parse(std::str::from_utf8(manifest.manifest()).unwrap(), "the library")?);
    let carrier = Process::carrier(program, calls.clone(), None)?;
    block_on(Instance::create(&name, manifest, calls, carrier, deadline, b"{\"role\":\"store\"}"))
}

fn call(instance: &Instance, method: &'static str, request: &str) -> Result<String> {
    block_on(instance.call(method, b"", request.as_bytes())).map(|body| String::from_utf8(body).unwrap())
}

#[track_caller]
fn expect<T>(result: Result<T>, parts: &[&str]) -> Error {
    let Err(error) = result else { panic!("expected an error with {parts:?}") };
    let text = format!("{error:?}\n{error}");
    for part in parts {
        assert!(text.contains(part), "{part:?} is not in: {text}");
    }
    error
}

#[test]
fn a_library_works_as_it_does_in_the_process() {
    let (_directory, library) = built("good");
    let instance = start(&library, LONG).unwrap();
    for request in ["", "1 entry", "grüße\nzwei", "{\"a\": 1.50}", "\"quoted\""] {
        assert_eq!(call(&instance, "echo", request).unwrap(), request);
    }
    let error = expect(call(&instance, "fly", ""), &["no such method"]);
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    let (head, items) = block_on(instance.stream("count", b"", b"")).unwrap();
    let items: Vec<_> = block_on(items.map(|item| String::from_utf8(item.unwrap()).unwrap()).collect());
    assert_eq!((&*head, items.concat().as_str()), (b"{}".as_slice(), "12345"));
    assert_eq!(block_on(instance.close(LONG)).unwrap(), Default::default());
}

/// The call ends with this; another instance goes on, and the next call finds the library loaded again.
#[track_caller]
fn check(method: &'static str, parts: &[&str]) {
    let (_directory, library) = built("crashes");
    let (instance, other) = (start(&library, LONG).unwrap(), start(&library, LONG).unwrap());
    let error = expect(call(&instance, method, ""), parts);
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert_eq!(call(&other, "echo", "on").unwrap(), "on");
    assert_eq!(call(&instance, "echo", "on").unwrap(), "on");
    block_on(instance.close(LONG)).unwrap();
    block_on(other.close(LONG)).unwrap();
}

#[test]
fn a_segfault_ends_the_child_only() {
    check("segfault", &["the plugin `hostile`, `segfault`: its program `", "ended with signal: 11 (SIGSEGV)"]);
}

#[test]
fn an_abort_ends_the_child_only() {
    check("abort", &["ended with signal: 6 (SIGABRT)", "it is not known whether `abort` took effect"]);
}

#[test]
fn an_exit_ends_the_child_only() {
    check("exit", &["ended with exit status: 3"]);
    check("exit well", &["ended with exit status: 0"]);
}

#[test]
fn a_kill_ends_the_child_only() {
    check("kill", &["ended with signal: 9 (SIGKILL)"]);
}

#[test]
fn a_function_that_blocks_costs_a_restart() {
    let (_directory, library) = built("crashes");
    let instance = start(&library, Duration::from_secs(2)).unwrap();
    expect(call(&instance, "block", ""), &["no answer within 2s"]);
    // Further calls wait behind it until the child is found not to read, and killed.
    let begun = std::time::Instant::now();
    while call(&instance, "echo", "on").is_err() {
        assert!(begun.elapsed() < LONG);
    }
    block_on(instance.close(LONG)).unwrap();
}

#[test]
fn threads_that_never_end_do_not_keep_the_child() {
    let (_directory, library) = built("crashes");
    let instance = start(&library, LONG).unwrap();
    call(&instance, "thread", "").unwrap();
    block_on(instance.close(LONG)).unwrap();
}

#[test]
fn a_library_that_is_refused_says_why() {
    let (_directory, library) = built("wrong_magic");
    expect(
        start(&library, LONG).map(drop),
        &["ended with exit status: 14 before it answered `hello`; it last said: fmail: ", "expected the magic number"],
    );
}

/// Runs `fmail plugin-host` with this as its input.
fn run(args: &[&str], input: &str) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_fmail"))
        .arg("plugin-host")
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
    child.stdout.take().unwrap().read_to_end(&mut stdout).unwrap();
    child.stderr.take().unwrap().read_to_end(&mut stderr).unwrap();
    Output { status: child.wait().unwrap(), stdout, stderr }
}

#[test]
fn what_a_library_prints_goes_to_standard_error() {
    let (_directory, library) = built("crashes");
    let input = "{\"hello\":{\"abi\":[1,0]}}\n{\"create\":1,\"envelope\":{}}\n\
                 {\"call\":18446744073709551615,\"method\":\"print\",\"request\":\"7 x\"}\n{\"destroy\":9}\n";
    let output = run(&[library.to_str().unwrap()], input);
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let lines: Vec<&str> = stdout.lines().collect();
    assert!(lines[0].starts_with("{\"hello\":{\"name\":\"hostile\""), "{stdout}");
    assert_eq!(lines[1..], ["{\"done\":1}", "{\"done\":18446744073709551615,\"body\":\"7 x\"}", "{\"done\":9}"]);
    assert!(stderr.contains("hello from the plugin\nand from its depths\n"), "{stderr}");
    assert!(output.status.success());
}

#[test]
fn items_beyond_the_credit_are_told_to_stop() {
    let (_directory, library) = built("good");
    let input = "{\"hello\":{}}\n{\"create\":1}\n{\"call\":2,\"method\":\"count\"}\n{\"pull\":2,\"n\":3}\n";
    let output = run(&["--", library.to_str().unwrap()], input);
    let stdout = String::from_utf8_lossy(&output.stdout);
    let lines: Vec<&str> = stdout.lines().skip(2).collect();
    let expected = ["{\"item\":2,\"body\":{}}", "{\"item\":2,\"body\":\"1\"}", "{\"item\":2,\"body\":\"2\"}"];
    assert_eq!((&lines[..3], lines[3]), (&expected[..], "{\"done\":2,\"status\":1}"));
}

#[test]
fn it_is_a_command_for_the_host_alone() {
    let output = run(&[], "");
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("the library's file is expected"));
    let help = Command::new(env!("CARGO_BIN_EXE_fmail")).arg("--help").output().unwrap();
    assert!(!String::from_utf8_lossy(&help.stdout).contains("plugin-host"));
}
