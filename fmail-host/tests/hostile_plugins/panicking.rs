//! A plugin in Rust, built with the SDK, that panics in every place where its own code runs.

use std::path::PathBuf;

use fmail_api::ErrorKind;

use crate::kit::{Hostile, call, close, good_goes_on, logged, says};

/// The library, which is built before this test because the test depends on its crate.
fn library() -> Vec<u8> {
    let beside: PathBuf = std::env::current_exe().unwrap().with_file_name("libfmail_panicking.so");
    std::fs::read(&beside).unwrap_or_else(|error| panic!("{}: {error}", beside.display()))
}

#[test]
fn panics_in_every_entry_of_the_sdk() {
    let hostile = Hostile::file(&library(), "sdk-panics");
    let instance = hostile.start().unwrap();
    let check = |method, request, text: &str| {
        let error = call(&instance, method, request).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Internal);
        says(&error, &[&format!("the plugin `sdk-panics`, `{method}`: panicked: {text}"), "defect"]);
    };
    check("append", "1 x", "at once");
    check("read", "0 10 1000", "later, on another thread");
    check("drop", "1 2 3", "index out of bounds");
    check("health", "", "");
    check("append", "1 x", "at once");
    // It ends all the same: either it says what happened, or that it is gone.
    if let Err(error) = close(&instance) {
        says(&error, &["the plugin `sdk-panics`, `destroy`", "panicked"]);
    }
    let log = logged("sdk-panics").join("\n");
    assert!(log.contains("at once") && log.contains("later, on another thread"), "panics are logged: {log}");
    good_goes_on();
}

#[test]
fn a_panic_in_open_is_why_there_is_no_instance() {
    let hostile = Hostile::file(&library(), "sdk-panics");
    hostile.configure("config.open = true\n");
    let error = hostile.refused(hostile.start(), &["`create`", "panicked: ", "in open", "defect"]);
    assert_eq!(error.kind(), ErrorKind::Internal);
}
