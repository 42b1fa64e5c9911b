//! Answers and items that break the rules.

use fmail_abi::Counters;
use fmail_api::ErrorKind;
use futures::StreamExt;
use futures::executor::block_on;

use crate::kit::{Hostile, call, close, count, echo, good_goes_on, logged, says};

#[test]
fn panics_in_every_entry() {
    let instance = Hostile::new("panics", "panicking").start().unwrap();
    let error = echo(&instance, "x").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Internal);
    says(&error, &["the plugin `panicking`, `echo`: panicked: index out of bounds", "defect", "log"]);
    let Err(error) = count(&instance) else { panic!("the stream did not end with the panic") };
    says(&error, &["the plugin `panicking`, `count`: panicked: in pull"]);
    says(&echo(&instance, "x").unwrap_err(), &["index out of bounds"]);
    says(&close(&instance).unwrap_err(), &["the plugin `panicking`, `destroy`: panicked: at last"]);
    good_goes_on();
}

#[test]
fn two_answers() {
    let instance = Hostile::new("two_answers", "hostile").start().unwrap();
    assert_eq!(echo(&instance, "first").unwrap(), "first");
    assert_eq!(echo(&instance, "second").unwrap(), "second");
    assert_eq!(close(&instance).unwrap(), Counters { late: 2, ..Counters::default() });
    good_goes_on();
}

#[test]
fn invented_ids() {
    let instance = Hostile::new("invented_ids", "hostile").start().unwrap();
    assert_eq!(echo(&instance, "x").unwrap(), "x");
    assert_eq!(close(&instance).unwrap(), Counters { forged: 6, ..Counters::default() });
    good_goes_on();
}

#[test]
fn statuses_that_do_not_exist() {
    let instance = Hostile::new("odd_status", "hostile").start().unwrap();
    let error = echo(&instance, "up").unwrap_err();
    says(&error, &["expected the status 0 or one of -1 to -9, got 77", "tell its author"]);
    let error = echo(&instance, "down").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Internal);
    says(&error, &["-77", "odd"]);
    good_goes_on();
}

/// Nothing is read from an address that is none of ours; one of these cannot be read.
#[test]
fn a_host_that_is_none_of_ours() {
    let instance = Hostile::new("wrong_host", "hostile").start().unwrap();
    assert_eq!(echo(&instance, "x").unwrap(), "x");
    assert_eq!(close(&instance).unwrap(), Counters::default());
    good_goes_on();
}

#[test]
fn more_items_than_credit() {
    let instance = Hostile::new("excess_items", "hostile").start().unwrap();
    let items = count(&instance).unwrap();
    assert!(items.iter().all(Result::is_ok));
    assert_eq!(items.len(), 63, "the head and these are what was asked for");
    assert_eq!(close(&instance).unwrap(), Counters { excess: 1000 - 64, ..Counters::default() });
    good_goes_on();
}

#[test]
fn items_without_any_credit() {
    let instance = Hostile::new("items_without_credit", "hostile").start().unwrap();
    assert_eq!(echo(&instance, "told to stop").unwrap(), "told to stop");
    assert_eq!(close(&instance).unwrap(), Counters { excess: 10, ..Counters::default() });
    good_goes_on();
}

#[test]
fn bytes_that_are_not_utf8() {
    let instance = Hostile::new("not_utf8", "hostile").start().unwrap();
    let error = echo(&instance, "x").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Internal);
    says(&error, &["`echo`: expected the answer as UTF-8 text, got something else at byte 3", "tell its author"]);
    let items = count(&instance).unwrap();
    assert_eq!(items.len(), 1, "the stream ends with the error");
    says(items[0].as_ref().unwrap_err(), &["`count`: expected the item as UTF-8 text, got something else at byte 0"]);
    // The third item and the end came too late.
    assert_eq!(close(&instance).unwrap(), Counters { late: 2, ..Counters::default() });
    good_goes_on();
}

#[test]
fn null_pointers_with_a_length() {
    let instance = Hostile::new("null_bytes", "hostile").start().unwrap();
    says(&echo(&instance, "null").unwrap_err(), &["expected the answer as UTF-8", "a null pointer with a length of 5"]);
    says(&echo(&instance, "huge").unwrap_err(), &["got a length of 18446744073709551615"]);
    let error = echo(&instance, "negative").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Internal, "{error}");
    assert_eq!(echo(&instance, "x").unwrap(), "x");
    good_goes_on();
}

/// What a plugin writes to standard output cannot be held back in process: rule 8 forbids it, `fmail plugin check` finds it,
/// and the calls themselves are not disturbed.
#[test]
fn output_on_stdout() {
    let instance = Hostile::new("stdout", "hostile").start().unwrap();
    assert_eq!(echo(&instance, "x").unwrap(), "x");
    close(&instance).unwrap();
    good_goes_on();
}

#[test]
fn a_call_that_is_answered_from_another_thread() {
    let instance = Hostile::new("threads", "hostile").start().unwrap();
    assert_eq!(echo(&instance, "x").unwrap(), "x");
    close(&instance).unwrap();
    good_goes_on();
}

/// Half of them are given up at once. Each of the others gets its own answer, and nothing is left in the table.
#[test]
fn ten_thousand_calls_at_once() {
    const THREADS: usize = 4;
    const CALLS: usize = 10_000;
    let good = Hostile::new("good", "hostile").start().unwrap();
    let apart = Hostile::new("threads", "hostile").start().unwrap();
    for (instance, calls) in [(&good, CALLS), (&apart, 1000)] {
        let run = |thread: usize| {
            let texts: Vec<String> = (0..calls / THREADS).map(|number| format!("{thread}/{number}")).collect();
            let waiting: Vec<_> = texts.iter().map(|text| instance.call("echo", b"", text.as_bytes())).collect();
            block_on(async {
                // All are begun before any is waited for.
                let mut waiting: Vec<_> = waiting.into_iter().map(Box::pin).collect();
                let mut begun = Vec::new();
                for call in &mut waiting {
                    begun.push(futures::poll!(call.as_mut()));
                }
                for (place, (text, begun)) in texts.iter().zip(begun).enumerate() {
                    match begun {
                        std::task::Poll::Ready(answer) => assert_eq!(&*answer.unwrap(), text.as_bytes()),
                        std::task::Poll::Pending if place % 2 == 0 => {}
                        std::task::Poll::Pending => {
                            let answer = waiting[place].as_mut().await.unwrap();
                            assert_eq!(&*answer, text.as_bytes());
                        }
                    }
                }
            });
        };
        std::thread::scope(|scope| (0..THREADS).for_each(|thread| drop(scope.spawn(move || run(thread)))));
        let counters = close(instance).unwrap();
        assert_eq!((counters.forged, counters.excess), (0, 0));
    }
    good_goes_on();
}

#[test]
fn streams_that_are_dropped_half_way_leave_nothing() {
    let instance = Hostile::new("good", "hostile").start().unwrap();
    for taken in 0..6 {
        block_on(async {
            let (_, items) = instance.stream("count", b"", b"").await.unwrap();
            assert_eq!(items.take(taken).count().await, taken.min(5));
        });
    }
    assert_eq!(close(&instance).unwrap(), Counters::default());
    good_goes_on();
}

#[test]
fn what_a_plugin_logs_is_one_line_under_its_name() {
    let instance = Hostile::new("null_bytes", "quiet").start().unwrap();
    assert_eq!(call(&instance, "echo", "x").unwrap(), "x");
    let lines: Vec<String> = logged("quiet").into_iter().filter(|line| line.contains("INFO plugin")).collect();
    assert_eq!(lines.len(), 1, "{lines:?}");
}
