//! A plugin of the SDK as a program: line by line, as docs/plugins/abi.md has it.
#![allow(missing_docs)]

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

struct Program {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
}

impl Program {
    fn start() -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_boundary-program"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let (stdin, stdout) = (child.stdin.take(), BufReader::new(child.stdout.take().unwrap()));
        Program { child, stdin, stdout }
    }

    fn say(&mut self, line: &str) {
        writeln!(self.stdin.as_mut().unwrap(), "{line}").unwrap();
    }

    fn hear(&mut self) -> String {
        let mut line = String::new();
        self.stdout.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    #[track_caller]
    fn check(&mut self, say: &str, hear: &str) {
        self.say(say);
        assert_eq!(self.hear(), hear);
    }

    /// Waits for the program's end: whether it was well, and what it said on its standard error.
    fn end(mut self) -> (bool, String) {
        self.stdin.take();
        let well = self.child.wait().unwrap().success();
        let mut said = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        (well, said)
    }
}

const CREATE: &str = r#"{"create":1,"envelope":{"role":"store","instance":"p","config":{}}}"#;

#[test]
fn a_program_speaks_the_lines() {
    let mut program = Program::start();
    program.say(r#"{"hello":{"abi":[1,0]}}"#);
    assert!(program.hear().starts_with(r#"{"hello":{"name":"program","version":""#));
    program.check(r#"{"call":9,"method":"health"}"#, r#"{"done":9,"status":-7,"body":"there is no instance yet"}"#);
    program.check(CREATE, r#"{"done":1}"#);
    program.check(r#"{"call":2,"method":"append","request":"1 {\"a\":\"b c\"}"}"#, r#"{"done":2}"#);
    program.check(r#"{"call":3,"method":"read","request":"0 9 999"}"#, r#"{"done":3,"body":"1 {\"a\":\"b c\"}\n"}"#);
    program.check(
        r#"{"call":4,"method":"append","request":"1 x"}"#,
        r#"{"done":4,"status":-3,"body":{"code":"conflict","message":"the next position is 2, not 1","retryable":false}}"#,
    );
    program.say(r#"{"call":5,"method":"drop","request":"1"}"#);
    assert!(program.hear().starts_with(r#"{"log":{"level":"error","target":"panic","message":"panicked at "#));
    assert_eq!(program.hear(), r#"{"done":5,"status":-9,"body":"panicked: keeps everything"}"#);
    program.check(
        r#"{"call":6,"method":"health"}"#,
        r#"{"log":{"level":"info","target":"boundary_program","message":"asked for its health","fields":{"entries":1}}}"#,
    );
    assert_eq!(program.hear(), r#"{"done":6,"body":{"writable":true,"detail":"in memory"}}"#);
    program.say("what?");
    let said = program.hear();
    assert!(said.starts_with(r#"{"log":{"level":"error""#) && said.contains("what?"), "{said}");
    program.check(r#"{"destroy":7}"#, r#"{"done":7}"#);
    assert_eq!(program.end(), (true, "closed\n".into()));
}

#[test]
fn a_program_whose_host_is_gone_closes_its_instance() {
    let mut program = Program::start();
    program.check(CREATE, r#"{"done":1}"#);
    assert_eq!(program.end(), (true, "closed\n".into()));
}
