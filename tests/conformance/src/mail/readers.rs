//! Several at once: readers that drain one inbox, senders, and changes that cross.

use std::collections::BTreeSet;
use std::sync::Mutex;

use fmail_api::{ErrorKind, Folder, Mark, MessageId, Result};

use super::kit::{Post, ids};
use crate::case::{ensure, ensure_eq};
use crate::kit::at_once;
use crate::{Bench, Case, Need, Verdict};

pub(super) static CASES: &[Case] = &[
    Case {
        rule: super::MAIL,
        name: "readers_that_drain_one_inbox_get_each_message_once",
        needs: &[Need::States],
        check: drained,
    },
    Case {
        rule: super::MAIL,
        name: "what_a_dead_reader_claimed_is_given_out_again_once",
        needs: &[Need::States],
        check: redelivered,
    },
    Case {
        rule: super::MAIL,
        name: "a_claimed_message_is_finished_by_its_token_alone",
        needs: &[Need::States],
        check: tokens,
    },
    Case {
        rule: super::MAIL,
        name: "a_hundred_senders_at_once_are_all_in_the_inbox",
        needs: &[Need::States],
        check: senders,
    },
    Case {
        rule: super::MAIL,
        name: "counts_are_right_behind_changes_that_crossed",
        needs: &[Need::States],
        check: crossed,
    },
];

fn fill(post: &Post, count: usize) -> Verdict<BTreeSet<MessageId>> {
    (0..count).map(|number| Ok(post.send("alice", "@bob", number)?.id)).collect()
}

fn drained(bench: &Bench) -> Verdict {
    let post = Post::open(bench)?;
    let sent = fill(&post, 60)?;
    let posts: Vec<Post> = (0..4).map(|_| Post::open(bench)).collect::<Verdict<_>>()?;
    let got = at_once(4, |reader| {
        let (post, mut got) = (&posts[reader], Vec::new());
        loop {
            // Different readers take different amounts.
            let taken = post.claim("bob", reader + 1, 600)?;
            if taken.is_empty() {
                return Ok(got);
            }
            for mail in taken {
                let token = mail.state.claim.map(|claim| claim.token);
                post.mark_under("bob", Mark::Acknowledged, mail.message.id, token)?;
                got.push(mail.message.id);
            }
        }
    })?;
    let all: Vec<MessageId> = got.into_iter().flatten().collect();
    ensure_eq!(all.len(), sent.len(), "messages that readers got in all");
    ensure_eq!(all.iter().copied().collect::<BTreeSet<_>>(), sent, "messages that readers got");
    ensure_eq!(post.count("bob")?, (sent.len() as u64, 0), "the count when all is done");
    Ok(())
}

fn redelivered(bench: &Bench) -> Verdict {
    let post = Post::open(bench)?;
    let sent = fill(&post, 3)?;
    // This reader claims and is never heard of again.
    ensure_eq!(post.claim("bob", 3, 60)?.len(), 3, "messages claimed");
    ensure_eq!(post.claim("bob", 3, 60)?.len(), 0, "messages claimed by the next reader at the same time");
    post.wait(61);
    let again = post.claim("bob", 3, 60)?;
    ensure_eq!(ids(&again).into_iter().collect::<BTreeSet<_>>(), sent, "messages given out again");
    ensure!(again.iter().all(|mail| mail.state.claim.as_ref().is_some_and(|claim| claim.attempts == 2)), "attempts");
    for mail in again {
        post.mark_under("bob", Mark::Acknowledged, mail.message.id, mail.state.claim.map(|claim| claim.token))?;
    }
    post.wait(61);
    ensure_eq!(post.claim("bob", 3, 60)?.len(), 0, "messages given out a third time");
    Ok(())
}

fn tokens(bench: &Bench) -> Verdict {
    let post = Post::open(bench)?;
    fill(&post, 1)?;
    let mail = post.claim("bob", 1, 60)?.remove(0);
    let (id, token) = (mail.message.id, mail.state.claim.map(|claim| claim.token));
    let conflict = |result: Result<_>| match result {
        Err(error) if error.kind() == ErrorKind::Conflict => true,
        Err(_) | Ok(_) => false,
    };
    for mark in [Mark::Read, Mark::Acknowledged, Mark::Archived, Mark::Deleted] {
        ensure!(conflict(post.mark("bob", mark, id)), "{mark:?} without the token");
        ensure!(conflict(post.mark_under("bob", mark, id, Some("wrong".into()))), "{mark:?} with a wrong token");
    }
    ensure_eq!(ids(&post.folder("bob", Folder::Unread)?), [id], "a claimed message is still unread mail");
    post.wait(61);
    ensure!(conflict(post.mark_under("bob", Mark::Acknowledged, id, token)), "an acknowledgement that is too late");
    Ok(())
}

fn senders(bench: &Bench) -> Verdict {
    let posts: Vec<Post> = (0..10).map(|_| Post::open(bench)).collect::<Verdict<_>>()?;
    let sent = at_once(100, |number| Ok(posts[number % 10].send(&format!("agent-{number}"), "@bob", number)?.id))?;
    let found: BTreeSet<MessageId> = posts[0].inbox("bob")?.into_iter().collect();
    ensure_eq!(found, sent.into_iter().collect::<BTreeSet<_>>(), "the inbox behind a hundred senders");
    ensure_eq!(posts[0].count("bob")?, (100, 100), "the count behind a hundred senders");
    Ok(())
}

/// Readers change states at random while messages arrive; in the end everything is counted by hand.
fn crossed(bench: &Bench) -> Verdict {
    let post = Post::open(bench)?;
    let sent = Mutex::new(fill(&post, 12)?.into_iter().collect::<Vec<_>>());
    let posts: Vec<Post> = (0..4).map(|_| Post::open(bench)).collect::<Verdict<_>>()?;
    at_once(4, |worker| {
        let post = &posts[worker];
        let mut dice = worker as u64 + 1;
        for step in 0..30 {
            dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            if step % 10 == worker {
                let id = post.send("alice", "@bob", step)?.id;
                sent.lock().map_err(|_| crate::Failure::new("a thread of the case panicked"))?.push(id);
            }
            let known = sent.lock().map_err(|_| crate::Failure::new("a thread of the case panicked"))?.clone();
            let id = known[(dice >> 33) as usize % known.len()];
            let marks = [Mark::Read, Mark::Unread, Mark::Archived, Mark::Unarchived, Mark::Acknowledged];
            post.mark("bob", marks[(dice >> 20) as usize % marks.len()], id)?;
        }
        Ok(())
    })?;
    let known = sent.into_inner().map_err(|_| crate::Failure::new("a thread of the case panicked"))?;
    let (mut open, mut unread) = (BTreeSet::new(), BTreeSet::new());
    for id in known {
        let state = post.read("bob", id, true)?.state;
        if state.is_open() {
            open.insert(id);
            if !state.is_read() {
                unread.insert(id);
            }
        }
    }
    ensure_eq!(post.inbox("bob")?.into_iter().collect::<BTreeSet<_>>(), unread, "the inbox");
    ensure_eq!(ids(&post.folder("bob", Folder::Open)?).into_iter().collect::<BTreeSet<_>>(), open, "all open mail");
    ensure_eq!(post.count("bob")?, (open.len() as u64, unread.len() as u64), "the count");
    Ok(())
}
