//! `fmail plugin …`, as a plugin's author uses it: from a template to a plugin that passes, without an edit.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use fmail_e2e::{fmail_binary, plugin_check_binary, plugins, workspace};
use serde_json::Value;
use tempfile::TempDir;

/// A directory to work in, with a home of its own.
struct Desk(TempDir);

impl Desk {
    fn new() -> Desk {
        let desk = Desk(tempfile::Builder::new().prefix("fmail-plugins-").tempdir().unwrap());
        for directory in ["home", "work"] {
            std::fs::create_dir(desk.0.path().join(directory)).unwrap();
        }
        desk
    }

    fn work(&self) -> PathBuf {
        self.0.path().join("work")
    }

    fn command(&self, program: &Path, words: &[&str]) -> Command {
        let mut command = Command::new(program);
        command.args(words).current_dir(self.work()).env("HOME", self.0.path().join("home"));
        command.env("FMAIL_PLUGIN_CHECK", plugin_check_binary()).env_remove("XDG_DATA_HOME");
        command
    }

    fn fmail(&self, words: &[&str]) -> Output {
        self.command(fmail_binary(), words).output().expect("fmail starts")
    }

    /// The JSON that a command prints, which must succeed.
    fn json(&self, words: &[&str]) -> Value {
        let output = self.fmail(words);
        assert!(output.status.success(), "{words:?}: {}", shown(&output));
        serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{words:?}: {error}: {}", shown(&output)))
    }

    /// Writes a template and builds it; gives the path of what was built.
    fn made(&self, name: &str, kind: &str, lang: &str) -> PathBuf {
        let sources = workspace().to_string_lossy();
        let words = ["plugin", "new", name, "--kind", kind, "--lang", lang, "--sdk", &sources, "--json"];
        let new = self.json(&words);
        let directory = PathBuf::from(new["directory"].as_str().unwrap());
        let result = PathBuf::from(new["result"].as_str().unwrap());
        match new["build"].as_str().unwrap() {
            "" => {}
            "make" => self.build(Command::new("make").current_dir(&directory), "make and cc are needed"),
            cargo => {
                assert_eq!(cargo, "cargo build --release");
                // The lock file and the target directory are ours, so that nothing is fetched, and built once only.
                std::fs::copy(workspace().join("Cargo.lock"), directory.join("Cargo.lock")).unwrap();
                let target = workspace().join("target/templates");
                let mut build = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
                build.args(["build", "--offline", "--target-dir"]).arg(&target).current_dir(&directory);
                self.build(&mut build, "cargo is needed");
                std::fs::create_dir_all(result.parent().unwrap()).unwrap();
                std::fs::copy(target.join("debug").join(result.file_name().unwrap()), &result).unwrap();
            }
        }
        assert!(result.is_file(), "{} was not built", result.display());
        result
    }

    fn build(&self, command: &mut Command, needed: &str) {
        let output = command.output().unwrap_or_else(|error| panic!("{needed}: {error}"));
        assert!(output.status.success(), "{command:?}: {}", shown(&output));
    }

    /// Every case of a check, as JSON, and the line for all.
    fn checked(&self, plugin: &Path, more: &[&str]) -> (Output, Vec<Value>, Value) {
        let mut words = vec!["plugin", "check", plugin.to_str().unwrap(), "--json"];
        words.extend(more);
        let output = self.fmail(&words);
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let mut lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let all = lines.pop().unwrap_or_else(|| panic!("{}", shown(&output)));
        (output, lines, all)
    }

    #[track_caller]
    fn passes(&self, plugin: &Path, more: &[&str], at_least: u64) {
        let (output, cases, all) = self.checked(plugin, more);
        let failed: Vec<&Value> = cases.iter().filter(|case| case["outcome"] == "failed").collect();
        assert!(output.status.success() && failed.is_empty(), "{failed:#?} {all}");
        assert!(all["passed"].as_u64().unwrap() >= at_least, "{all}");
    }
}

fn shown(output: &Output) -> String {
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    format!("{}\n{out}\n{err}", output.status)
}

#[test]
fn a_new_store_in_c_passes_without_an_edit() {
    let desk = Desk::new();
    let built = desk.made("my-store", "store", "c");
    assert_eq!(built.file_name().unwrap(), "libfmail_my_store.so");
    desk.passes(&built, &[], 150);
}

#[test]
fn a_new_store_in_python_passes_without_an_edit() {
    let desk = Desk::new();
    desk.passes(&desk.made("notes", "store", "python"), &[], 150);
}

#[test]
fn a_new_transport_and_a_new_relay_in_python_pass_without_an_edit() {
    let desk = Desk::new();
    desk.passes(&desk.made("pipe", "transport", "python"), &[], 11);
    desk.passes(&desk.made("steps", "relay", "python"), &["--pair"], 9);
}

#[test]
fn new_plugins_in_rust_pass_without_an_edit() {
    let desk = Desk::new();
    desk.passes(&desk.made("rusty", "store", "rust"), &[], 150);
    desk.passes(&desk.made("pipe", "transport", "rust"), &[], 11);
    desk.passes(&desk.made("steps", "relay", "rust"), &["--pair"], 9);
}

#[test]
fn a_new_transport_and_a_new_relay_in_c_pass_without_an_edit() {
    let desk = Desk::new();
    let transport = desk.made("pipe-2", "transport", "c");
    assert_eq!(transport.file_name().unwrap(), "libfmail_pipe_2.so");
    let relay = desk.made("steps", "relay", "c");
    for isolation in ["none", "process"] {
        desk.passes(&transport, &["--isolation", isolation], 11);
        desk.passes(&relay, &["--pair", "--isolation", isolation], 9);
    }
}

#[test]
fn a_file_that_is_there_is_not_overwritten() {
    let desk = Desk::new();
    desk.made("notes", "store", "python");
    let output = desk.fmail(&["plugin", "new", "notes", "--lang", "python"]);
    assert!(shown(&output).contains("is there already"), "{}", shown(&output));
}

/// The example in C, with a change in its source.
fn changed(desk: &Desk, from: &str, to: &str) -> PathBuf {
    let source = desk.work().join("changed/store.c");
    let built = desk.made("changed", "store", "c");
    let text = std::fs::read_to_string(&source).unwrap();
    assert!(text.contains(from), "the example has no {from:?} any more");
    std::fs::write(&source, text.replace(from, to)).unwrap();
    desk.build(Command::new("make").arg("-B").current_dir(source.parent().unwrap()), "make and cc are needed");
    built
}

/// The rules that a check finds broken.
fn broken(desk: &Desk, plugin: &Path, more: &[&str]) -> Vec<String> {
    let (output, cases, all) = desk.checked(plugin, more);
    assert_eq!(output.status.code(), Some(1), "{all}");
    let failed = cases.iter().filter(|case| case["outcome"] == "failed");
    assert!(failed.clone().all(|case| !case["reason"].as_str().unwrap_or_default().is_empty()), "{cases:#?}");
    all["broken"].as_array().unwrap().iter().map(|rule| rule.as_str().unwrap().to_string()).collect()
}

#[test]
fn a_log_that_takes_a_position_twice_breaks_g2() {
    let desk = Desk::new();
    let plugin =
        changed(&desk, "if (at != s->last + 1) return FM_E_CONFLICT;", "if (at > s->last + 1) return FM_E_CONFLICT;");
    assert_eq!(broken(&desk, &plugin, &["--only", "G2"]), ["G2"]);
}

#[test]
fn a_crash_fails_its_case_only_and_names_the_signal() {
    let desk = Desk::new();
    let crash = "static int drop(store *s, char *request) {\n  *(volatile int *)0 = 1;";
    let plugin = changed(&desk, "static int drop(store *s, char *request) {", crash);
    let (_, cases, all) = desk.checked(&plugin, &["--only", "G2", "--only", "G9"]);
    assert_eq!(all["broken"], serde_json::json!(["G9"]), "{cases:#?}");
    let failed = cases.iter().find(|case| case["outcome"] == "failed").unwrap();
    assert!(failed["reason"].as_str().unwrap().contains("signal 11"), "{failed}");
}

#[test]
fn a_plugin_that_prints_breaks_rule_8() {
    let desk = Desk::new();
    let plugin = changed(&desk, "pthread_mutex_lock(&s->lock);", "pthread_mutex_lock(&s->lock); printf(\"hello\");");
    assert_eq!(broken(&desk, &plugin, &["--only", "G1"]), ["8"]);
}

#[test]
fn a_call_that_blocks_breaks_rule_5() {
    let desk = Desk::new();
    let wait = "nanosleep(&(struct timespec){0, 8000000}, NULL); pthread_mutex_lock(&s->lock);";
    let plugin = changed(&desk, "pthread_mutex_lock(&s->lock);", wait);
    let (_, cases, _) = desk.checked(&plugin, &["--only", "a_call_returns_within_5_ms"]);
    assert!(cases[0]["reason"].as_str().unwrap().contains("none returned within 5ms"), "{cases:#?}");
}

#[test]
fn a_call_that_blocks_for_longer_than_the_host_is_patient_breaks_rule_5_too() {
    // From 100 ms on the host calls from threads of its own. Within the time of a test the last one never returns.
    for (seconds, nanoseconds, told) in [
        (0, 99_000_000, "took "),
        (0, 150_000_000, "took 15"),
        (2, 0, "took more than 1s"),
        (600, 0, "took more than 1s"),
    ] {
        let desk = Desk::new();
        let wait = format!("nanosleep(&(struct timespec){{{seconds}, {nanoseconds}}}, NULL);");
        let from = "pthread_mutex_lock(&s->lock);";
        let plugin = changed(&desk, from, &format!("{wait} {from}"));
        let (output, cases, _) = desk.checked(&plugin, &["--only", "a_call_returns_within_5_ms"]);
        let reason = cases[0]["reason"].as_str().unwrap_or_default();
        assert!(output.status.code() == Some(1) && reason.contains("none returned within 5ms"), "{wait} {cases:#?}");
        assert!(reason.contains(told), "{wait} {reason}");
    }
}

#[test]
fn a_lock_held_across_an_answer_breaks_rule_6() {
    let desk = Desk::new();
    let plugin = changed(&desk, "  pthread_mutex_unlock(&s->lock);\n", "");
    let source = desk.work().join("changed/store.c");
    let text = std::fs::read_to_string(&source).unwrap();
    let text = text.replace("  free(text), free(body);", "  pthread_mutex_unlock(&s->lock), free(text), free(body);");
    std::fs::write(&source, text).unwrap();
    desk.build(Command::new("make").arg("-B").current_dir(source.parent().unwrap()), "make and cc are needed");
    let mut command = desk.command(plugin_check_binary(), &["check", plugin.to_str().unwrap(), "--deadline", "5"]);
    let output = command.args(["--only", "6"]).output().unwrap();
    let text = shown(&output);
    assert!(output.status.code() == Some(1) && text.contains("FAIL  6"), "{text}");
}

/// A template in Python, with a change in its source.
fn edited(desk: &Desk, kind: &str, from: &str, to: &str) -> PathBuf {
    let program = desk.made("edited", kind, "python");
    let text = std::fs::read_to_string(&program).unwrap();
    assert!(text.contains(from), "the template has no {from:?} any more");
    std::fs::write(&program, text.replace(from, to)).unwrap();
    program
}

/// The one case that is broken, and why.
fn broken_case(desk: &Desk, plugin: &Path, more: &[&str]) -> (String, String) {
    let (_, cases, all) = desk.checked(plugin, more);
    let failed: Vec<&Value> = cases.iter().filter(|case| case["outcome"] == "failed").collect();
    assert_eq!(failed.len(), 1, "{cases:#?} {all}");
    let text = |key: &str| failed[0][key].as_str().unwrap().to_string();
    (text("case"), text("reason"))
}

#[test]
fn a_transport_that_garbage_ends_breaks_t3() {
    let desk = Desk::new();
    let plugin = edited(&desk, "transport", "except (OSError, ValueError): pass", "except ValueError: os._exit(1)");
    let (case, _) = broken_case(&desk, &plugin, &["--only", "garbage_on_the_wire_disturbs_nobody"]);
    assert_eq!(case, "garbage_on_the_wire_disturbs_nobody");
}

#[test]
fn a_transport_that_serves_one_after_the_other_breaks_t3() {
    let desk = Desk::new();
    let plugin = edited(&desk, "transport", "        peers[peer].start()\n", "        peers.pop(peer).run()\n");
    let (case, reason) = broken_case(&desk, &plugin, &["--only", "silence_on_the_wire_disturbs_nobody"]);
    assert!(case.starts_with("silence") && reason.contains("nothing happened"), "{reason}");
}

#[test]
fn a_relay_that_brings_back_what_was_swept_breaks_y4() {
    let desk = Desk::new();
    // What is refused as too old is imported once more, as if it were new.
    let answered = "lambda verb, other=other: note(other, verb)";
    let renews = "lambda verb, other=other, request=request: again(other, request) \\\n                    \
                  if \"refused\" in str(verb.get(\"body\")) else note(other, verb)";
    let plugin = edited(&desk, "relay", answered, renews);
    let text = std::fs::read_to_string(&plugin).unwrap();
    let again = "def again(other, request):\n    \
                 request = request | {\"msg\": request[\"msg\"] | {\"time\": \"2030-01-01T00:00:00Z\"}}\n    \
                 ask(\"request\", {\"project\": other}, request, lambda verb: note(other, verb))\n\ndef mirror(";
    std::fs::write(&plugin, text.replace("def mirror(", again)).unwrap();
    let (_, reason) = broken_case(&desk, &plugin, &["--pair", "--only", "Y4"]);
    assert!(reason.contains("came back"), "{reason}");
}

#[test]
fn a_relay_that_ends_with_a_bad_peer_or_hides_it_breaks_y5() {
    let desk = Desk::new();
    let note = "    body, link = verb.get(\"body\"), links[project]\n";
    let hides = edited(&desk, "relay", note, &format!("    return\n{note}"));
    let (case, reason) = broken_case(&desk, &hides, &["--pair", "--only", "Y5"]);
    assert!(case.ends_with("is_shown") && reason.contains("no link says so"), "{reason}");
    let desk = Desk::new();
    let ends = edited(&desk, "relay", note, &format!("{note}    if verb.get(\"status\", 0) < 0: return end(-8)\n"));
    let (case, _) = broken_case(&desk, &ends, &["--pair", "--only", "a_peer_that_fails_disturbs_nobody_and_is_shown"]);
    assert!(case.starts_with("a_peer_that_fails"), "{case}");
}

#[test]
fn a_relay_that_waits_for_a_silent_peer_breaks_y5() {
    let desk = Desk::new();
    // It asks for nothing more while any import is under way.
    let ask = "                ask(\"request\", {\"project\": other}, request,";
    let waits = "                if any(getattr(one, \"import_\", False) for one in heard.values()): return\n\
                 \x20               ask(\"request\", {\"project\": other}, request,";
    let plugin = edited(&desk, "relay", ask, waits);
    let text = std::fs::read_to_string(&plugin).unwrap();
    let noted = text.replace(
        "    heard[number] = then\n",
        "    heard[number] = then\n    if request.get(\"cmd\") == \"import\": then.import_ = True\n",
    );
    std::fs::write(&plugin, noted).unwrap();
    let (case, _) = broken_case(&desk, &plugin, &["--pair", "--only", "a_peer_that_never_answers_disturbs_nobody"]);
    assert_eq!(case, "a_peer_that_never_answers_disturbs_nobody");
}

#[test]
fn list_path_and_inspect_tell_what_there_is() {
    let desk = Desk::new();
    let built = desk.made("mine", "store", "c");
    let plugins = desk.0.path().join("home/.local/share/fmail/plugins");
    std::fs::create_dir_all(&plugins).unwrap();
    std::fs::copy(&built, plugins.join("libfmail_mine.so")).unwrap();
    std::fs::write(plugins.join("fmail-plugin-broken"), "#!/bin/sh\n").unwrap();
    let all = desk.json(&["plugin", "list", "--json"]);
    let one = |name: &str| all["plugins"].as_array().unwrap().iter().find(|one| one["name"] == name).unwrap().clone();
    assert_eq!((&one("files")["state"], &one("files")["kind"]), (&"built-in".into(), &"store".into()));
    assert_eq!((&one("mine")["state"], &one("mine")["kind"]), (&"found".into(), &"store".into()), "{all}");
    assert_eq!(one("broken")["state"], "refused");
    assert!(one("broken")["reason"].as_str().unwrap().contains("may be run"), "{all}");
    let places = desk.json(&["plugin", "path", "--json"]);
    let first = &places["places"][0];
    assert_eq!((first["directory"].as_str(), &first["exists"]), (plugins.to_str(), &true.into()), "{places}");
    let inspected = desk.json(&["plugin", "inspect", "mine", "--json"]);
    assert_eq!(inspected["manifest"]["name"], "mine");
    assert_eq!((&inspected["form"], &inspected["abi"]["major"]), (&"library".into(), &1.into()), "{inspected}");
}

#[test]
fn a_library_that_crashes_when_it_is_loaded_is_inspected_without_harm() {
    let desk = Desk::new();
    let constructor = "__attribute__((constructor)) static void now(void) { abort(); }\nstatic void pull(";
    let plugin = changed(&desk, "static void pull(", constructor);
    let output = desk.fmail(&["plugin", "inspect", plugin.to_str().unwrap()]);
    assert!(!output.status.success() && shown(&output).contains("signal 6"), "{}", shown(&output));
}

#[test]
fn bench_measures_beside_the_store_in_memory() {
    let desk = Desk::new();
    let built = desk.made("mine", "store", "c");
    let bench = desk.json(&["plugin", "bench", built.to_str().unwrap(), "--messages", "200", "--json"]);
    let figures = bench["figures"].as_array().unwrap();
    assert_eq!(figures.len(), 5, "{bench}");
    assert!(figures.iter().all(|figure| figure["ratio"].as_f64().unwrap() > 0.0), "{bench}");
}

/// The store in a file that the guide shows, held to the rules that its two capabilities add.
#[test]
fn the_guides_store_in_a_file_is_durable_and_shared() {
    let desk = Desk::new();
    let guide = std::fs::read_to_string(workspace().join("docs/plugins/guide.md")).unwrap();
    let program = guide.split("```python\n").nth(1).unwrap().split("```").next().unwrap();
    let path = desk.work().join("fmail-plugin-notes");
    std::fs::write(&path, program).unwrap();
    std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let output =
        desk.fmail(&["plugin", "check", "./fmail-plugin-notes", "--only", "G2", "--only", "G3", "--only", "A5"]);
    assert!(output.status.success(), "{}", shown(&output));
}

#[test]
fn the_guide_runs_as_it_stands() {
    let desk = Desk::new();
    let guide = std::fs::read_to_string(workspace().join("docs/plugins/guide.md")).unwrap();
    let blocks = guide.split("```sh\n").skip(1).map(|rest| rest.split("```").next().unwrap());
    let script = blocks.collect::<Vec<_>>().join("\n");
    assert!(script.contains("plugin new") && script.contains("plugin check") && script.contains("plugin list"));
    let bin = fmail_binary().parent().unwrap().to_string_lossy().into_owned();
    let path = format!("{bin}:{}", std::env::var("PATH").unwrap_or_default());
    let output = desk.command(Path::new("sh"), &["-euc", &script]).env("PATH", path).output().unwrap();
    let text = shown(&output);
    assert!(output.status.success() && text.contains("mystore: ") && text.contains(" 0 failed"), "{text}");
}

#[test]
fn the_plugins_that_come_with_fmail_keep_their_rules() {
    let desk = Desk::new();
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    desk.passes(&plugins().join("libfmail_sqlite.so"), &[], 170);
    for transport in ["libfmail_ws.so", "libfmail_http.so"] {
        desk.passes(&plugins().join(transport), &["--set", &format!("config.address={free}")], 11);
    }
    desk.passes(&plugins().join("libfmail_mirror.so"), &["--pair"], 9);
}
