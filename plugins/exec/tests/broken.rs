//! Scripts that are broken, each in its own way: each has its own clear error. An outage is never an empty inbox, and
//! nothing that was not done is a success.

mod common;

use std::time::{Duration, Instant};

use common::{Bench, agent, inbox, mailbox, open, scan, send};
use fmail_api::{ErrorKind, Folder, Mark, MessageId, Query, Result, Store};
use fmail_exec::ExecOptions;
use futures::executor::block_on;

/// A project with one message that a good script has stored, and that script replaced by a broken one.
struct Broken {
    bench: Bench,
    store: std::sync::Arc<dyn Store>,
    id: MessageId,
}

impl Broken {
    fn new(text: &str) -> Broken {
        Broken::with(|bench| bench.options(bench.script(text)))
    }

    fn with(options: impl FnOnce(&Bench) -> ExecOptions) -> Broken {
        let bench = Bench::new();
        let good = "#!/bin/sh\necho '{\"id\":\"m1\",\"from\":\"alice\",\"to\":\"bob\",\"created_at\":\"2026-01-10T15:00:00Z\"}'\n";
        let id = send(&*bench.open(bench.script(good)), "alice", "bob", "x").unwrap().message.id;
        let store = open(options(&bench));
        Broken { bench, store, id }
    }

    /// Everything that a script answers with something.
    fn asked(&self) -> Vec<(&'static str, Result<String>)> {
        let (store, bob) = (&*self.store, agent("bob"));
        let mailbox = mailbox(store);
        vec![
            ("send", send(store, "alice", "bob", "x").map(|sent| format!("{sent:?}"))),
            ("inbox", inbox(store, "bob", Folder::Unread).map(|mail| format!("{mail:?}"))),
            ("all", inbox(store, "bob", Folder::Open).map(|mail| format!("{mail:?}"))),
            ("peek", block_on(mailbox.peek(&bob, self.id)).map(|mail| format!("{mail:?}"))),
            ("read", block_on(mailbox.read(&bob, self.id)).map(|mail| format!("{mail:?}"))),
            ("count", block_on(mailbox.count(&bob)).map(|count| format!("{count:?}"))),
            ("thread", block_on(mailbox.thread(&bob, "t")).map(|mail| format!("{mail:?}"))),
            ("log", scan(store, Query::visible(bob.clone())).map(|found| format!("{found:?}"))),
            (
                "by id",
                scan(store, Query { ids: [self.id].into(), ..Query::default() }).map(|found| format!("{found:?}")),
            ),
        ]
    }

    /// Everything that a script answers with its exit status alone.
    fn told(&self) -> Vec<(&'static str, Result<String>)> {
        let mark =
            |mark| block_on(mailbox(&*self.store).mark(&agent("bob"), self.id, mark)).map(|done| done.to_string());
        vec![("archive", mark(Mark::Archived)), ("delete", mark(Mark::Deleted)), ("mark-read", mark(Mark::Read))]
    }

    fn all(&self) -> Vec<(&'static str, Result<String>)> {
        self.asked().into_iter().chain(self.told()).collect()
    }
}

#[track_caller]
fn fails(answers: Vec<(&'static str, Result<String>)>, kind: ErrorKind, says: &[&str]) {
    for (what, answer) in answers {
        let error = answer.expect_err(what);
        assert_eq!(error.kind(), kind, "{what}: {error:?}");
        for text in says {
            assert!(format!("{error:?}").contains(text), "{what} does not say {text:?}: {error:?}");
        }
    }
}

#[test]
fn a_syntax_error_is_not_an_empty_inbox() {
    let broken = Broken::new("#!/bin/sh\nif then fi ((\n");
    fails(broken.all(), ErrorKind::Unsupported, &["/script", "exit status 2", "yntax error"]);
}

#[test]
fn exit_status_2_is_not_a_success() {
    let broken = Broken::new("#!/bin/sh\necho 'what is that?' >&2\nexit 2\n");
    fails(broken.all(), ErrorKind::Unsupported, &["/script", "exit status 2", "what is that?"]);
}

#[test]
fn a_script_that_fails_is_unavailable_with_its_own_words() {
    let broken = Broken::new("#!/bin/sh\n[ $1 = ensure-running ] && exit 0\necho 'the server is down' >&2\nexit 1\n");
    fails(broken.all(), ErrorKind::Unavailable, &["/script", "exit status 1", "the server is down"]);
    let told = broken.asked().remove(1).1.unwrap_err();
    assert!(told.message().contains("inbox bob"), "{told}");
}

#[test]
fn what_ensure_running_says_is_heard() {
    let broken = Broken::new("#!/bin/sh\n[ $1 = ensure-running ] && { echo 'no database' >&2; exit 1; }\necho '[]'\n");
    fails(broken.all(), ErrorKind::Unavailable, &["ensure-running", "exit status 1", "no database"]);
}

#[test]
fn a_hang_ends_at_the_deadline_with_all_that_was_started() {
    let text = "#!/bin/sh\n[ $1 = ensure-running ] && exit 0\nsleep 1000 &\necho $! >>$(dirname $0)/pids\nwait\n";
    let short =
        |bench: &Bench| ExecOptions { timeout: Duration::from_millis(700), ..bench.options(bench.script(text)) };
    let broken = Broken::with(short);
    let begun = Instant::now();
    let error = inbox(&*broken.store, "bob", Folder::Unread).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout);
    assert!(error.message().contains("inbox bob") && error.message().contains("700ms"), "{error}");
    assert!(begun.elapsed() < Duration::from_secs(30), "{:?}", begun.elapsed());
    let error = send(&*broken.store, "alice", "bob", "x").unwrap_err();
    assert!(error.message().contains("not known"), "{error}");
    let pids = std::fs::read_to_string(broken.bench.directory.path().join("pids")).unwrap();
    assert_eq!(pids.lines().count(), 2);
    for pid in pids.lines() {
        let gone = || std::fs::read_to_string(format!("/proc/{pid}/stat")).map_or(true, |stat| stat.contains(") Z "));
        let begun = Instant::now();
        while !gone() {
            assert!(begun.elapsed() < Duration::from_secs(10), "the sleep {pid} is still there");
            std::thread::yield_now();
        }
    }
}

#[test]
fn a_background_child_that_keeps_the_pipe_is_no_failure_and_no_hang() {
    let text = "#!/bin/sh\nsleep 20 &\n[ $1 = ensure-running ] && exit 0\n\
        echo '[{\"id\":\"m1\",\"from\":\"alice\",\"to\":\"bob\",\"body\":\"hi\",\"created_at\":\"2026-01-10T15:00:00Z\"}]'\n";
    let broken = Broken::new(text);
    let begun = Instant::now();
    let mail = inbox(&*broken.store, "bob", Folder::Unread).unwrap();
    assert_eq!(common::bodies(&mail), ["hi"]);
    assert!(begun.elapsed() < Duration::from_secs(15), "{:?}", begun.elapsed());
}

#[test]
fn a_gigabyte_of_output_is_cut_off_early() {
    let broken = Broken::with(|bench| ExecOptions {
        max_output: 1 << 20,
        ..bench.options(bench.script(
            "#!/bin/sh\n[ $1 = ensure-running ] && exit 0\nyes | head -c 1000000000\necho done >$(dirname $0)/done\n",
        ))
    });
    let begun = Instant::now();
    fails(broken.asked(), ErrorKind::TooLarge, &["more than 1048576 bytes", "max_output", "killed"]);
    assert!(begun.elapsed() < Duration::from_secs(30), "{:?}", begun.elapsed());
    assert!(!broken.bench.directory.path().join("done").exists(), "it was let run to its end");
}

#[test]
fn a_gigabyte_of_errors_is_neither_kept_nor_in_the_way() {
    let text =
        "#!/bin/sh\n[ $1 = ensure-running ] && exit 0\nyes error | head -c 50000000 >&2\necho the end >&2\nexit 1\n";
    let error = inbox(&*Broken::new(text).store, "bob", Folder::Unread).unwrap_err();
    assert!(error.message().contains("the end") && error.message().len() < 1000, "{error}");
}

#[test]
fn an_empty_list_has_many_forms_and_none_of_them_is_a_message() {
    for list in ["echo '[]'", "echo null", ":", "printf '[]\\r\\n'", "printf '\\r\\n'"] {
        let broken = Broken::new(&format!("#!/bin/sh\n{list}\n"));
        assert!(inbox(&*broken.store, "bob", Folder::Unread).unwrap().is_empty(), "{list}");
        assert!(inbox(&*broken.store, "bob", Folder::Open).unwrap().is_empty(), "{list}");
        for (what, answer) in broken.asked() {
            if matches!(what, "send" | "peek" | "read" | "by id") {
                let error = answer.expect_err(what);
                assert_eq!(error.kind(), ErrorKind::Corrupt, "{list}, {what}: {error:?}");
                assert!(error.message().contains("where a message is expected"), "{list}, {what}: {error}");
            }
        }
    }
}

#[test]
fn windows_line_ends_are_no_mistake() {
    let text = "#!/bin/sh\nprintf '[{\"id\":\"m1\",\"from\":\"alice\",\"to\":\"bob\",\"body\":\"hi\"}]\\r\\n\\r\\n'\n";
    assert_eq!(common::bodies(&inbox(&*Broken::new(text).store, "bob", Folder::Open).unwrap()), ["hi"]);
}

#[test]
fn numbers_as_ids_are_refused_and_not_left_out() {
    let text = "#!/bin/sh\ncase $1 in ensure-running) ;; inbox|all|thread) echo '[{\"id\":7,\"from\":\"a\",\"to\":\"bob\"}]';;\n\
        *) echo '{\"id\":7,\"from\":\"alice\",\"to\":\"bob\",\"total\":\"1\"}';; esac\n";
    let broken = Broken::new(text);
    let asked = broken.asked().into_iter().filter(|(what, _)| *what != "count").collect();
    fails(asked, ErrorKind::Corrupt, &["`id` is the number 7", "a text, in quotes"]);
}

#[test]
fn a_script_that_cannot_be_executed_is_unavailable() {
    let broken = Broken::with(|bench| bench.options(vec![bench.write("#!/bin/sh\n", 0o644).display().to_string()]));
    fails(broken.all(), ErrorKind::Unavailable, &["/script", "cannot be run", "chmod +x"]);
    assert_eq!(block_on(broken.store.health()).unwrap_err().kind(), ErrorKind::Unavailable);
}

#[test]
fn a_script_that_is_missing_is_unavailable() {
    let broken = Broken::with(|bench| bench.options(vec!["/nowhere/mail-script".into()]));
    fails(broken.all(), ErrorKind::Unavailable, &["/nowhere/mail-script", "cannot be run", "`command`"]);
    assert_eq!(block_on(broken.store.health()).unwrap_err().kind(), ErrorKind::Unavailable);
}

#[test]
fn a_script_whose_interpreter_is_missing_says_where_to_look() {
    let broken = Broken::new("#!/nowhere/interpreter\n");
    fails(broken.all(), ErrorKind::Unavailable, &["/script", "cannot be run", "#!"]);
}

#[test]
fn a_script_that_a_signal_ends_is_unavailable() {
    let broken = Broken::new("#!/bin/sh\n[ $1 = ensure-running ] && exit 0\nkill -9 $$\n");
    fails(broken.all(), ErrorKind::Unavailable, &["/script", "SIGKILL"]);
}

#[test]
fn what_is_not_json_is_shown() {
    let broken = Broken::new("#!/bin/sh\necho 'Welcome to mail!'\n");
    fails(broken.asked(), ErrorKind::Corrupt, &["/script", "not JSON", "Welcome to mail!"]);
}

#[test]
fn bytes_that_are_no_text_are_not_believed() {
    let broken = Broken::new("#!/bin/sh\nprintf '[{\"id\":\"\\377\\376\"}]'\n");
    fails(broken.asked(), ErrorKind::Corrupt, &["not JSON"]);
}

#[test]
fn two_values_are_one_too_many() {
    let broken = Broken::new("#!/bin/sh\necho '[]'; echo '[]'\n");
    fails(broken.asked(), ErrorKind::Corrupt, &["more than one value", "behind the first"]);
}

#[test]
fn an_answer_of_another_kind_is_refused() {
    for (output, expect) in [
        ("{}", "has no `id`"),
        ("\"hello\"", "the text \"hello\" where a message"),
        ("[[]]", "a list where a message"),
        (r#"{"id":"m1","from":"alice","to":"bob","created_at":""}"#, "`created_at` is the text \"\""),
        (r#"{"id":"m2","from":"alice","to":"bob"}"#, "asked for the message `m1` and answers with `m2`"),
    ] {
        let broken = Broken::new(&format!("#!/bin/sh\necho '{output}'\n"));
        let error = block_on(mailbox(&*broken.store).peek(&agent("bob"), broken.id)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt);
        assert!(error.message().contains(expect), "{output}: {error}");
    }
}

#[test]
fn a_send_that_went_elsewhere_is_told() {
    let broken = Broken::new("#!/bin/sh\necho '{\"id\":\"m3\",\"from\":\"alice\",\"to\":\"eve\"}'\n");
    let error = send(&*broken.store, "alice", "bob", "x").unwrap_err();
    assert!(error.message().contains("to `bob`") && error.message().contains("to `eve`"), "{error}");
}

#[test]
fn mail_of_others_in_a_list_is_not_shown() {
    let broken =
        Broken::new("#!/bin/sh\necho '[{\"id\":\"m3\",\"from\":\"alice\",\"to\":\"carol\",\"body\":\"hers\"}]'\n");
    let error = inbox(&*broken.store, "bob", Folder::Open).unwrap_err();
    assert!(error.message().contains("mailbox of `bob`") && error.message().contains("to `carol`"), "{error}");
}

#[test]
fn a_message_that_is_listed_twice_is_told() {
    let one = r#"{"id":"m1","from":"alice","to":"bob"}"#;
    let broken = Broken::new(&format!("#!/bin/sh\necho '[{one},{one}]'\n"));
    let error = inbox(&*broken.store, "bob", Folder::Open).unwrap_err();
    assert!(error.kind() == ErrorKind::Corrupt && error.message().contains("`m1` twice"), "{error}");
}

#[test]
fn a_count_that_cannot_be_is_refused() {
    for (output, expect) in
        [("{\"total\":1,\"unread\":2}", "2 unread"), ("3", "is expected"), ("{\"total\":-1}", "is expected")]
    {
        let broken = Broken::new(&format!("#!/bin/sh\necho '{output}'\n"));
        let error = block_on(mailbox(&*broken.store).count(&agent("bob"))).unwrap_err();
        assert!(error.message().contains(expect), "{output}: {error}");
    }
}

#[test]
fn an_id_or_a_path_that_says_already_archived_says_nothing() {
    let broken = Broken::new("#!/bin/sh\n[ $1 = ensure-running ] && exit 0\necho 'disk full' >&2\nexit 1\n");
    let place = broken.bench.directory.path().join("already archived");
    std::fs::create_dir(&place).unwrap();
    let script = place.join("script");
    std::fs::copy(broken.bench.directory.path().join("script"), &script).unwrap();
    let store = open(broken.bench.options(vec![script.display().to_string()]));
    let error = block_on(mailbox(&*store).mark(&agent("bob"), broken.id, Mark::Archived)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
}
