use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use fmail_transports::peer::Believed;

use super::*;

const PROJECT: &str = "proj-abc123";

/// Two hosts: the pairings of each, and a project's directory.
struct Hosts {
    _top: tempfile::TempDir,
    a: Pairings,
    b: Pairings,
    root: PathBuf,
    now: Timestamp,
}

impl Hosts {
    fn new() -> Hosts {
        let top = tempfile::tempdir().unwrap();
        let root = top.path().join("project");
        std::fs::create_dir(&root).unwrap();
        let pairings = |name: &str| {
            let data = top.path().join(name).to_str().unwrap().to_string();
            Pairings::of(&Environment::new("/", [("XDG_DATA_HOME".to_string(), data)].into())).unwrap()
        };
        let (a, b) = (pairings("a"), pairings("b"));
        Hosts { root: root.canonicalize().unwrap(), a, b, now: "2026-01-10T15:30:00Z".parse().unwrap(), _top: top }
    }

    fn inviting(&self, name: Option<&str>) -> Inviting {
        Inviting {
            project: PROJECT.into(),
            root: self.root.clone(),
            address: "host-a:7465".parse().unwrap(),
            listen: "0.0.0.0:7465".parse().unwrap(),
            name: name.map(String::from),
            host: "host-a".into(),
            expires: self.now.after(Duration::from_secs(3600)),
            now: self.now,
        }
    }

    fn invite(&self, name: Option<&str>) -> Invitation {
        self.a.invite(self.inviting(name)).unwrap().1
    }

    fn token(&self, key: &str) -> Result<Token> {
        self.a.token(key, PROJECT, std::slice::from_ref(&self.root), self.now)
    }
}

/// The key of who has joined.
fn key(pairing: &Pairing) -> (String, Token) {
    let token = pairing.peer_address().unwrap().token.unwrap();
    (token.name().unwrap().to_string(), token)
}

#[test]
fn who_is_invited_and_joins_has_the_same_key_as_who_invited() {
    let hosts = Hosts::new();
    let invitation = hosts.invite(None);
    let joined = hosts.b.join(&invitation.to_string().parse().unwrap(), &hosts.root, None, hosts.now).unwrap();
    assert_eq!((joined.name.as_str(), joined.project.as_str()), ("host-a", PROJECT));
    let (key, token) = key(&joined);
    assert_eq!(hosts.token(&key).unwrap(), token);
    assert_eq!(hosts.a.claim(&key, Some("host-b"), None, hosts.now).unwrap(), "host-b");
    assert_eq!(hosts.token(&key).unwrap(), token, "it stays the same once it is used");
    assert!(hosts.a.holds(&key));
    let shown = hosts.a.certificate().unwrap().unwrap();
    let believed = Believed::Pinned(fmail_transports::peer::Fingerprint::of_pem(&shown.certificate).unwrap());
    assert_eq!(joined.peer_address().unwrap().tls, Some(believed));
    assert_eq!(hosts.b.join(&invitation, &hosts.root, None, hosts.now).unwrap(), joined, "once more changes nothing");
}

#[test]
fn an_invitation_is_for_one_host_and_its_secret_is_forgotten_when_it_is_accepted() {
    let hosts = Hosts::new();
    let invitation = hosts.invite(Some("laptop"));
    let first = hosts.b.join(&invitation, &hosts.root, None, hosts.now).unwrap();
    let second_host = Hosts::new();
    let second = second_host.b.join(&invitation, &second_host.root, None, hosts.now).unwrap();
    let ((first, _), (second, token)) = (key(&first), key(&second));
    assert_eq!(hosts.token(&second).unwrap(), token, "whoever comes first");
    assert_eq!(
        hosts.a.claim(&first, Some("host-b"), None, hosts.now).unwrap(),
        "laptop",
        "a name that was given stays"
    );
    for late in [hosts.token(&second).err(), hosts.a.claim(&second, None, None, hosts.now).err()] {
        let error = late.unwrap();
        assert_eq!(error.kind(), ErrorKind::Denied);
        assert!(error.to_string().contains("accepted already, by host-b"), "{error}");
    }
    assert!(hosts.token(&first).is_ok() && !hosts.a.holds(&second));
    for path in files::listed(&hosts.a.peers()).unwrap() {
        let text = std::fs::read_to_string(path).unwrap();
        assert!(!text.contains(&invitation.secret), "{text}");
    }
}

#[test]
fn an_invitation_has_an_end_and_who_accepted_it_in_time_keeps_the_pairing() {
    let hosts = Hosts::new();
    let (late, in_time) = (hosts.invite(None), hosts.invite(None));
    let joined = |invitation| key(&hosts.b.join(&invitation, &hosts.root, None, hosts.now).unwrap()).0;
    let (late, in_time) = (joined(late), joined(in_time));
    hosts.a.claim(&in_time, Some("host-b"), None, hosts.now).unwrap();
    let after = hosts.now.after(Duration::from_secs(3600));
    let token = |key: &str| hosts.a.token(key, PROJECT, std::slice::from_ref(&hosts.root), after);
    let error = token(&late).unwrap_err();
    assert!(error.to_string().contains("expired at 2026-01-10T16:30:00Z"), "{error}");
    assert!(hosts.a.claim(&late, None, None, after).is_err());
    assert!(token(&in_time).is_ok());
    hosts.a.invite(Inviting { now: after, ..hosts.inviting(None) }).unwrap();
    assert_eq!(hosts.a.all().unwrap().pairings.len(), 2, "what expired is gone");
}

#[test]
fn a_key_opens_its_own_project_in_its_own_directory_only() {
    let hosts = Hosts::new();
    let (key, _) = key(&hosts.b.join(&hosts.invite(None), &hosts.root, None, hosts.now).unwrap());
    let elsewhere = [PathBuf::from("/elsewhere")];
    for error in [
        hosts.a.token(&key, "proj-other", std::slice::from_ref(&hosts.root), hosts.now).unwrap_err(),
        hosts.a.token(&key, PROJECT, &elsewhere, hosts.now).unwrap_err(),
    ] {
        assert!(error.to_string().contains("another project"), "{error}");
    }
    for wrong in ["", "a.b", "../../etc.passwd", &format!("{}.{}", "g".repeat(20), "0".repeat(32))] {
        assert_eq!(hosts.token(wrong).unwrap_err().kind(), ErrorKind::Denied, "{wrong}");
    }
}

#[test]
fn what_is_revoked_opens_nothing_any_more() {
    let hosts = Hosts::new();
    let joined = hosts.b.join(&hosts.invite(None), &hosts.root, None, hosts.now).unwrap();
    let (key, _) = key(&joined);
    hosts.a.claim(&key, Some("host-b"), None, hosts.now).unwrap();
    let before = hosts.a.state();
    assert_eq!(before, hosts.a.state());
    let found = hosts.a.find("host-b").unwrap();
    assert_eq!(hosts.a.find(&found.id[..6]).unwrap(), found);
    assert!(hosts.a.revoke(&found.id).unwrap() && !hosts.a.revoke(&found.id).unwrap());
    assert_ne!(before, hosts.a.state());
    assert!(!hosts.a.holds(&key));
    assert!(hosts.token(&key).unwrap_err().to_string().contains("revoked"));
    let unknown = hosts.a.find("host-b").unwrap_err();
    assert_eq!(unknown.kind(), ErrorKind::NotFound);
}

#[test]
fn two_hosts_with_one_name_get_two_names_here() {
    let hosts = Hosts::new();
    let names = [0, 1].map(|_| {
        let joined = hosts.b.join(&hosts.invite(None), &hosts.root, None, hosts.now).unwrap();
        let there = hosts.a.claim(&key(&joined).0, Some("build server"), None, hosts.now).unwrap();
        (joined.name, there)
    });
    assert_eq!(names[0], ("host-a".to_string(), "build-server".to_string()));
    assert_eq!(names[1], ("host-a-2".to_string(), "build-server-2".to_string()));
    let wrong = hosts.a.invite(hosts.inviting(Some("a b"))).unwrap_err();
    assert_eq!(wrong.kind(), ErrorKind::InvalidRequest);
}

#[test]
fn what_others_could_read_is_not_used_and_nothing_is_readable_by_them() {
    let hosts = Hosts::new();
    hosts.invite(None);
    for path in walked(&hosts.a.directory) {
        let mode = std::fs::metadata(&path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode & 0o077, 0, "{} has mode {mode:o}", path.display());
    }
    let file = files::listed(&hosts.a.peers()).unwrap().remove(0);
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o640)).unwrap();
    let listed = hosts.a.all().unwrap();
    assert!(listed.pairings.is_empty());
    assert!(listed.problems[0].to_string().contains("mode 0640"), "{:?}", listed.problems);
}

#[test]
fn a_file_that_cannot_be_read_does_not_hide_the_others() {
    let hosts = Hosts::new();
    hosts.invite(Some("good"));
    files::write(&hosts.a.file("bad"), "{}").unwrap();
    let listed = hosts.a.all().unwrap();
    assert_eq!((listed.pairings.len(), listed.problems.len()), (1, 1));
    assert_eq!(hosts.a.find("good").unwrap().name, "good");
}

fn walked(directory: &Path) -> Vec<PathBuf> {
    let mut found = vec![directory.to_path_buf()];
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => found.extend(walked(&path)),
            false => found.push(path),
        }
    }
    found
}

#[test]
fn a_pairing_is_confirmed_once_and_remembers_the_host_that_comes_by_it() {
    let hosts = Hosts::new();
    let joined = hosts.b.join(&hosts.invite(None), &hosts.root, None, hosts.now).unwrap();
    assert!(!joined.is_confirmed());
    let later = hosts.now.after(Duration::from_secs(60));
    hosts.b.confirm(&joined.id, hosts.now).unwrap();
    hosts.b.confirm(&joined.id, later).unwrap();
    let confirmed = hosts.b.find(&joined.id).unwrap();
    assert!(matches!(confirmed.side, Side::Joined { confirmed: Some(at), .. } if at == hosts.now));
    assert_eq!(confirmed.peer_address(), joined.peer_address(), "who is dialled already is not dialled anew");
    let (key, _) = key(&joined);
    let node = |number| Some(NodeId::new(number));
    for (told, remembered) in [(None, None), (node(1), node(1)), (None, node(1)), (node(2), node(2))] {
        hosts.a.claim(&key, Some("host-b"), told, hosts.now).unwrap();
        let pairing = hosts.a.find(&joined.id).unwrap();
        assert_eq!(pairing.accepted_by().map(|(node, _)| node), remembered);
    }
}

#[test]
fn a_later_pairing_with_the_same_host_takes_the_place_and_the_name_of_the_earlier_one() {
    let hosts = Hosts::new();
    let join = |invitation| hosts.b.join(&invitation, &hosts.root, None, hosts.now).unwrap();
    let (old, new) = (join(hosts.invite(None)), join(hosts.invite(None)));
    let other_host = join(Hosts::new().invite(None));
    assert!(old.is_with_the_host_of(&new) && !old.is_with_the_host_of(&old) && !other_host.is_with_the_host_of(&new));
    let kept = hosts.b.replace(&old, &new, true).unwrap();
    assert_eq!((kept.id.as_str(), kept.name.as_str()), (new.id.as_str(), "host-a"));
    let names: Vec<String> = hosts.b.all().unwrap().pairings.into_iter().map(|pairing| pairing.id).collect();
    assert_eq!(names.len(), 2);
    assert!(!names.contains(&old.id) && names.contains(&new.id));
}
