//! `register`: claims a name, one winner per store.

use std::sync::{Mutex, PoisonError};

use fmail_api::{
    AgentName, AgentRecord, Context, Error, ErrorKind, Order, Profile, Query, RegisterRequest, Registered, Result,
    Scope, Target,
};
use futures::StreamExt;

use crate::Operations;
use crate::access::keepable;
use crate::operations::random;

/// A generated name that is taken is drawn again this often; from half of it on, a number makes it rarer.
const DRAWS: usize = 40;

const ADJECTIVES: &[&str] = &[
    "agile", "amber", "bold", "brave", "bright", "brisk", "calm", "candid", "clear", "clever", "cosmic", "crisp",
    "dapper", "deft", "eager", "early", "fair", "fleet", "fond", "frank", "gentle", "glad", "golden", "grand", "hardy",
    "honest", "jolly", "keen", "kind", "lively", "loyal", "lucid", "lucky", "merry", "mild", "neat", "nimble", "noble",
    "patient", "plucky", "polite", "proud", "quick", "quiet", "rapid", "ready", "robust", "rustic", "sharp", "silver",
    "sleek", "smart", "solid", "spry", "steady", "sunny", "swift", "tidy", "tough", "trusty", "vivid", "warm", "wise",
    "witty",
];

const NOUNS: &[&str] = &[
    "badger", "beaver", "bison", "bobcat", "condor", "cougar", "crane", "cricket", "dingo", "dolphin", "eagle",
    "egret", "falcon", "ferret", "finch", "fox", "gazelle", "gecko", "goose", "hare", "hawk", "heron", "ibex", "ibis",
    "jackal", "jaguar", "jay", "kestrel", "kiwi", "koala", "lark", "lemur", "lion", "llama", "lynx", "magpie",
    "marmot", "marten", "mole", "moose", "newt", "ocelot", "orca", "osprey", "otter", "owl", "panda", "panther",
    "pelican", "puffin", "quail", "rabbit", "raven", "robin", "salmon", "seal", "shrew", "sparrow", "stork", "swan",
    "tapir", "toucan", "walrus", "wren",
];

impl Operations {
    pub(crate) async fn register(&self, context: &Context, request: RegisterRequest) -> Result<Registered> {
        if let Some(name) = &request.name {
            keepable(name)?;
        }
        match request.name {
            Some(name) if request.again => self.come_back(&name, context, request.profile).await,
            Some(name) => self.claim(&name, context, request.profile).await,
            None => self.claim_any(context, request.one_word, request.profile).await,
        }
    }

    /// An agent that is perhaps known: as of now it is there, and its profile is what it says.
    async fn come_back(&self, name: &AgentName, context: &Context, profile: Profile) -> Result<Registered> {
        profile.check(name)?;
        let caller = Context { agent: name.clone(), ..context.clone() };
        let (now, before) = (self.clock.now(), Mutex::new(None));
        let change = |found: Option<AgentRecord>| {
            let known = found.is_some();
            let record = match found {
                Some(record) => self.seen(record, &caller, now),
                None => self.first_sight(name.clone(), &caller, now),
            };
            *before.lock().unwrap_or_else(PoisonError::into_inner) = Some((known, record.first_seen));
            let profile = profile.clone().over(record.profile);
            Some(AgentRecord { profile, ..record })
        };
        self.change_agent(name, true, change).await?;
        let before = before.into_inner().unwrap_or_else(PoisonError::into_inner);
        let (known, first_seen) = before.ok_or_else(|| Error::internal("an agent came back without a record"))?;
        Ok(Registered { name: name.clone(), first_seen, known })
    }

    async fn claim(&self, name: &AgentName, context: &Context, profile: Profile) -> Result<Registered> {
        profile.check(name)?;
        match self.claim_agent(name, context, profile).await {
            Ok((record, _)) => Ok(Registered { name: record.name, first_seen: record.first_seen, known: false }),
            Err(error) if error.kind() == ErrorKind::Conflict => {
                Err(Error::new(ErrorKind::Conflict, format!("the name `{name}` is taken")).help(
                    "choose another one, or run `fmail register` without a name for a generated one; \
                     `fmail who` lists the names in use",
                ))
            }
            Err(error) => Err(error),
        }
    }

    async fn claim_any(&self, context: &Context, one_word: bool, profile: Profile) -> Result<Registered> {
        for draw in 0..DRAWS {
            let (name, display) = generated(random(), draw >= DRAWS / 2, one_word)?;
            // A name without a record can still have mail: whoever had it before is not to be read by chance.
            match self.mailbox_is_empty(&name).await {
                Ok(true) => {}
                Ok(false) => continue,
                // Who may not look may not write either, and the claim says that better.
                Err(error) if error.kind() == ErrorKind::Denied => {}
                Err(error) => return Err(error),
            }
            let profile = Profile { display, ..profile.clone() };
            match self.claim(&name, context, profile).await {
                Err(error) if error.kind() == ErrorKind::Conflict => {}
                other => return other,
            }
        }
        Err(Error::new(ErrorKind::Conflict, format!("{DRAWS} generated names were all taken"))
            .help("choose one yourself: fmail register <name>"))
    }

    /// Whether nothing has been sent to the agent, as far as the store still knows.
    async fn mailbox_is_empty(&self, name: &AgentName) -> Result<bool> {
        let scope = Scope::Target(Target::Agent(name.clone()));
        let query = Query { scope, limit: Some(1), order: Order::Descending, ..Query::default() };
        Ok(self.store.scan(query).await?.messages.next().await.is_none())
    }
}

/// `brisk-otter`, or `brisk-otter-4711` where the plain ones are getting scarce; as one word `briskotter`, shown as
/// `BriskOtter`.
fn generated(random: u64, numbered: bool, one_word: bool) -> Result<(AgentName, Option<String>)> {
    let pick = |list: &[&'static str], part: u64| list[(part % list.len() as u64) as usize];
    let mut words: Vec<String> = vec![pick(ADJECTIVES, random).into(), pick(NOUNS, random >> 16).into()];
    if numbered {
        words.push(((random >> 32) % 10_000).to_string());
    }
    if !one_word {
        return Ok((words.join("-").parse()?, None));
    }
    let capital = |word: &String| word[..1].to_uppercase() + &word[1..];
    Ok((words.concat().parse()?, Some(words.iter().map(capital).collect())))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use fmail_api::{Client, ErrorKind, RecordKey, RegisterRequest, Request, Response, Result, Store, WhoRequest};
    use futures::executor::block_on;

    use super::*;
    use crate::testing::{Project, context};

    fn register(project: &Project, name: Option<&str>) -> Result<String> {
        let request = RegisterRequest { name: name.map(|name| name.parse().unwrap()), ..RegisterRequest::default() };
        match project.call("anon-1", Request::Register(request))?.head {
            Response::Registered(registered) => Ok(registered.name.to_string()),
            other => panic!("unexpected answer {other:?}"),
        }
    }

    #[test]
    fn a_name_is_given_once() {
        let project = Project::new();
        assert_eq!(register(&project, Some("agent-42")).unwrap(), "agent-42");
        let error = register(&project, Some("agent-42")).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Conflict);
        assert!(error.message().contains("agent-42"));
        assert!(block_on(project.store.get(&RecordKey::agent(&"agent-42".parse().unwrap()))).unwrap().is_some());
    }

    #[test]
    fn a_name_that_no_command_would_take_is_not_given() {
        let project = Project::new();
        for again in [false, true] {
            let name = Some("anon-3".parse().unwrap());
            let request = RegisterRequest { name, again, ..RegisterRequest::default() };
            let error = project.call("anon-1", Request::Register(request)).err().unwrap();
            assert_eq!(error.kind(), ErrorKind::InvalidAgent);
            assert!(error.message().contains("anon-3") && error.help_text().unwrap().contains("choose another"));
        }
        assert!(block_on(project.store.get(&RecordKey::agent(&"anon-3".parse().unwrap()))).unwrap().is_none());
        assert_eq!(register(&project, Some("anon-x")).unwrap(), "anon-x");
    }

    #[test]
    fn every_generated_name_is_a_name_and_another_one() {
        let project = Project::new();
        let names: std::collections::BTreeSet<String> = (0..200).map(|_| register(&project, None).unwrap()).collect();
        assert_eq!(names.len(), 200);
        for (adjective, noun) in ADJECTIVES.iter().zip(NOUNS) {
            assert!(format!("{adjective}-{noun}").parse::<AgentName>().is_ok());
        }
        assert_eq!(generated(0, true, false).unwrap().0.as_str(), "agile-badger-0");
    }

    #[test]
    fn a_name_of_one_word_is_shown_in_capitals() {
        let project = Project::new();
        let request = RegisterRequest { one_word: true, ..RegisterRequest::default() };
        let Response::Registered(registered) = project.call("anon-1", Request::Register(request)).unwrap().head else {
            panic!()
        };
        let who = WhoRequest { names: vec![registered.name.clone()] };
        let Response::Agents { agents, .. } = project.call("anon-1", Request::Who(who)).unwrap().head else { panic!() };
        let display = agents[0].profile.display.clone().unwrap();
        assert_eq!(display.to_lowercase(), registered.name.as_str());
        assert_eq!(display.matches(char::is_uppercase).count(), 2, "{display}");
        assert_eq!(generated(0, true, true).unwrap().1.as_deref(), Some("AgileBadger0"));
    }

    #[test]
    fn who_comes_back_keeps_its_first_time_and_what_it_said_before() {
        let project = Project::new();
        let come = |profile: Profile| {
            let request = RegisterRequest {
                name: Some("greendog".parse().unwrap()),
                again: true,
                profile,
                ..RegisterRequest::default()
            };
            match project.call("greendog", Request::Register(request)).unwrap().head {
                Response::Registered(registered) => registered,
                other => panic!("unexpected answer {other:?}"),
            }
        };
        let said = Profile { display: Some("GreenDog".into()), model: Some("one".into()), ..Profile::default() };
        let first = come(said);
        assert!(!first.known);
        project.clock.advance(std::time::Duration::from_secs(5));
        let second = come(Profile { model: Some("two".into()), ..Profile::default() });
        assert!(second.known && second.first_seen == first.first_seen);
        let who = WhoRequest { names: vec!["greendog".parse().unwrap()] };
        let Response::Agents { agents, .. } = project.call("greendog", Request::Who(who)).unwrap().head else {
            panic!()
        };
        let profile = &agents[0].profile;
        assert_eq!((profile.display.as_deref(), profile.model.as_deref()), (Some("GreenDog"), Some("two")));
        assert!(agents[0].last_seen > agents[0].first_seen);
    }

    #[test]
    fn nobody_is_shown_as_somebody_else() {
        let project = Project::new();
        for (display, fits) in [("GreenDog", true), ("GREENDOG", true), ("BlueDog", false), ("green-dog", false)] {
            let profile = Profile { display: Some(display.into()), ..Profile::default() };
            let request = RegisterRequest {
                name: Some("greendog".parse().unwrap()),
                again: true,
                profile,
                ..RegisterRequest::default()
            };
            let outcome = project.call("greendog", Request::Register(request));
            assert_eq!(outcome.is_ok(), fits, "{display}");
        }
        let profile = Profile { task: Some("x".repeat(5000)), ..Profile::default() };
        let request = RegisterRequest {
            name: Some("greendog".parse().unwrap()),
            again: true,
            profile,
            ..RegisterRequest::default()
        };
        assert!(project.call("greendog", Request::Register(request)).err().unwrap().message().contains("5000 bytes"));
    }

    #[test]
    fn of_many_who_race_for_a_name_one_wins() {
        let project = Project::new();
        let operations = Arc::new(project.operations);
        let racers: Vec<_> = (0..8)
            .map(|_| {
                let operations = operations.clone();
                std::thread::spawn(move || {
                    let request =
                        RegisterRequest { name: Some("prize".parse().unwrap()), ..RegisterRequest::default() };
                    block_on(operations.call(&context("anon-1"), Request::Register(request))).is_ok()
                })
            })
            .collect();
        let winners = racers.into_iter().map(|racer| racer.join().unwrap()).filter(|won| *won).count();
        assert_eq!(winners, 1);
    }
}
