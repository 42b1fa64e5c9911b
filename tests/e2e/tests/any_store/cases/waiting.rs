//! `send --wait-for`.

use super::cases;
use crate::stage::Stage;

cases![
    it_stays_until_every_recipient_has_it,
    it_stays_until_every_recipient_has_acknowledged,
    it_stays_until_somebody_has_answered,
    when_the_time_is_over_the_message_is_stored,
];

fn sending(stage: &Stage, to: &str, effect: &str) -> (fmail_e2e::Running, String) {
    let mut running = stage.start("alice", &["send", to, "please", "--wait-for", effect, "--timeout", "1m"]);
    let id = running.line();
    (running, id)
}

fn it_stays_until_every_recipient_has_it(stage: &Stage) {
    let (running, id) = sending(stage, "@bob,@carol", "read");
    stage.ok("bob", &["read", &id]);
    stage.ok("carol", &["read", &id]);
    stage.end(running, 0).says(&["read by @bob, @carol"]);
}

fn it_stays_until_every_recipient_has_acknowledged(stage: &Stage) {
    let (mut running, id) = sending(stage, "@bob", "ack");
    stage.ok("bob", &["read", &id]);
    assert!(!running.has_ended(), "reading is not acknowledging");
    stage.ok("bob", &["ack", &id]);
    stage.end(running, 0).says(&["acknowledged by @bob"]);
}

fn it_stays_until_somebody_has_answered(stage: &Stage) {
    let (running, id) = sending(stage, "@bob", "reply");
    stage.send("bob", "@alice", "something else");
    stage.ok("bob", &["reply", &id, "yes"]);
    let output = stage.end(running, 0);
    assert!(output.stdout.ends_with(" bob -> @alice: yes\n"), "{output}");
}

fn when_the_time_is_over_the_message_is_stored(stage: &Stage) {
    for effect in ["retrieved", "read", "ack", "reply"] {
        let output = stage.exits("alice", &["send", "@bob", effect, "--wait-for", effect, "--timeout", "100ms"], 17);
        output.says(&["is stored, and was not", "do not send it again"]);
    }
    assert_eq!(stage.bodies("bob", &["inbox"]), ["retrieved", "read", "ack", "reply"]);
}
