//! Which project a path means, in real directories.

mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use common::{Place, git, repository};
use fmail_api::{ErrorKind, HostedProject, Reporter, Result};
use fmail_host::{Catalogue, Environment, Project, Settings};

/// The home, what is served, and what was told.
struct Machine {
    place: Place,
    served: Vec<PathBuf>,
    told: Arc<Mutex<Vec<String>>>,
}

impl Machine {
    fn new() -> Self {
        let machine = Machine { place: Place::new(), served: Vec::new(), told: Arc::default() };
        machine.place.dir("home");
        machine.place.dir("elsewhere");
        machine
    }

    fn environment(&self) -> Environment {
        self.place.environment("elsewhere", &[])
    }

    /// A catalogue of its own, as a program that was started again has it.
    fn catalogue(&self) -> Catalogue {
        let told = self.told.clone();
        let reporter: Reporter = Arc::new(move |notice| told.lock().unwrap().push(notice.text));
        let environment = self.environment();
        let settings = Settings::load(&environment, None, &[]).unwrap();
        Catalogue::new(&environment, &settings, &self.served, reporter).unwrap()
    }

    fn find(&self, path: impl AsRef<Path>, create: bool) -> Result<HostedProject> {
        self.catalogue().find(&self.place.path("home").join(path), create)
    }

    fn create(&self, path: impl AsRef<Path>) -> HostedProject {
        self.find(path, true).unwrap()
    }

    fn told(&self) -> String {
        self.told.lock().unwrap().join("\n")
    }

    fn data(&self) -> PathBuf {
        self.place.path("home/.local/share/fmail")
    }

    /// Every file and directory outside of fmail's own.
    fn everything(&self) -> BTreeSet<PathBuf> {
        fn walk(directory: &Path, into: &mut BTreeSet<PathBuf>) {
            for entry in fs::read_dir(directory).unwrap().map(|entry| entry.unwrap()) {
                into.insert(entry.path());
                if entry.file_type().unwrap().is_dir() && entry.file_name() != "fmail" {
                    walk(&entry.path(), into);
                }
            }
        }
        let mut all = BTreeSet::new();
        walk(&self.place.path(""), &mut all);
        all.retain(|path| !path.starts_with(self.place.path("home/.local")));
        all
    }
}

fn mode(path: impl AsRef<Path>) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn a_directory_below_home_holds_its_own_project_which_the_command_line_finds() {
    let machine = Machine::new();
    let directory = machine.place.dir("home/app");
    let found = machine.create("app");
    assert_eq!((&found.root, found.key.as_str(), found.new), (&directory, directory.to_str().unwrap(), true));
    assert!(directory.join(".fmail/project.json").is_file() && directory.join(".fmail/.gitignore").is_file());
    let project = machine.place.project("home/app", &[]).unwrap();
    assert_eq!((project.root.clone(), project.id().unwrap().0), (found.root.clone(), found.id.clone()));
    assert_eq!(project.record().unwrap().unwrap().created, found.created);
    assert_eq!(machine.find("app", false).unwrap(), HostedProject { new: false, ..found });
}

#[test]
fn a_nested_directory_and_a_linked_worktree_mean_the_project_around_them() {
    let machine = Machine::new();
    let repo = repository(&machine.place, "home/repo");
    git(&repo, &["worktree", "add", "-q", "../linked"]);
    machine.place.dir("home/repo/src/deep");
    let found = machine.create("repo/src/deep");
    assert_eq!(found.root, repo);
    for path in ["repo", "repo/src", "linked", "repo/.fmail", "repo/.git", "repo/src/../src/deep/", "gone/../repo"] {
        assert_eq!(machine.find(path, false).unwrap().slug, found.slug, "{path}");
    }
    assert!(!machine.place.path("home/linked/.fmail").exists() && !repo.join("src/deep/.fmail").exists());
}

#[test]
fn any_other_path_is_a_key_and_its_project_lies_with_the_host() {
    let machine = Machine::new();
    machine.place.dir("outside/app");
    machine.place.write("home/file", "text");
    let outside = machine.place.path("outside/app");
    let before = machine.everything();
    for path in [&outside, Path::new("/no/such/dir"), &machine.place.path("home/file"), &machine.place.path("home/no")]
    {
        let found = machine.create(path);
        assert_eq!(found.key, path.to_str().unwrap());
        assert!(found.new && found.root.starts_with(machine.data().join("keys")), "{found:?}");
        assert_eq!(mode(&found.root), 0o700);
        assert!(found.root.join(".fmail/project.json").is_file());
        assert_eq!(machine.find(path, false).unwrap(), HostedProject { new: false, ..found });
    }
    assert_eq!(machine.everything(), before, "nothing is created elsewhere");
    assert_eq!((mode(machine.data()), mode(machine.data().join("projects"))), (0o700, 0o700));
}

#[test]
fn a_key_is_a_project_for_the_command_line_too() {
    let machine = Machine::new();
    let found = machine.create("/data/projects/app");
    let inside = found.root.strip_prefix(machine.place.path("")).unwrap().to_str().unwrap().to_string();
    let project = machine.place.project(&inside, &[]).unwrap();
    assert_eq!((project.root.clone(), project.id().unwrap().0), (found.root.clone(), found.id.clone()));
    // Its directory, and what is in it, mean the key; nothing else there is a project.
    for path in [found.root.clone(), found.root.join(".fmail")] {
        assert_eq!(machine.find(&path, false).unwrap().key, "/data/projects/app");
    }
    for path in [machine.data(), machine.data().join("projects"), machine.data().join("keys")] {
        let error = machine.find(&path, true).unwrap_err();
        assert!(error.kind() == ErrorKind::Denied && error.to_string().contains("fmail's own"), "{error}");
    }
}

#[test]
fn the_id_of_a_key_does_not_come_from_what_is_around_the_data_directory() {
    let machine = Machine::new();
    let dotfiles = repository(&machine.place, "home");
    git(&dotfiles, &["remote", "add", "origin", "https://example.org/me/dotfiles"]);
    let (one, two) = (machine.create("/col/one"), machine.create("/col/two"));
    assert_ne!(one.id, two.id);
    assert_eq!(machine.find("/col/one", false).unwrap().id, one.id);
}

#[test]
fn without_create_nothing_is_found_that_is_not_there_and_nothing_is_made() {
    let machine = Machine::new();
    machine.place.dir("home/app");
    let before = machine.everything();
    for path in ["app", "nothing", "/data/app"] {
        let error = machine.find(path, false).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidProject, "{error}");
    }
    assert!(machine.everything() == before && !machine.place.path("home/.local").exists());
}

#[test]
fn a_relative_path_is_refused_with_the_reason() {
    let machine = Machine::new();
    for path in ["", "app", "./app", "~/app"] {
        let error = machine.catalogue().find(Path::new(path), true).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidRequest);
        assert!(error.to_string().contains("absolute path"), "{error}");
    }
}

#[test]
fn a_link_that_leads_out_of_the_roots_makes_no_directory_there() {
    let machine = Machine::new();
    let (outside, home) = (machine.place.dir("outside"), machine.place.path("home"));
    symlink(&outside, home.join("out")).unwrap();
    machine.place.dir("outside/deep");
    machine.place.dir("home/real");
    symlink(home.join("real"), home.join("in")).unwrap();
    symlink(home.join("real"), outside.join("back")).unwrap();
    symlink(home.join("loop"), home.join("loop")).unwrap();
    for path in ["out", "out/deep", "out/../out/deep"] {
        assert!(machine.create(path).root.starts_with(machine.data()), "{path}");
    }
    assert!(!outside.join(".fmail").exists() && !outside.join("deep/.fmail").exists());
    // What leads in is the directory that it leads to, also from outside.
    let real = machine.create("real");
    assert_eq!(machine.find("in", false).unwrap().slug, real.slug);
    assert_eq!(machine.find(outside.join("back"), false).unwrap().slug, real.slug);
    assert!(machine.find("loop", true).is_err());
}

#[test]
fn a_project_that_is_found_outside_of_the_roots_is_refused_and_not_split() {
    let machine = Machine::new();
    let repo = repository(&machine.place, "outside/repo");
    git(&repo, &["worktree", "add", "-q", "../../home/linked"]);
    let error = machine.find("linked", true).unwrap_err();
    assert!(error.kind() == ErrorKind::Denied && error.to_string().contains("outside/repo"), "{error}");
    assert!(!repo.join(".fmail").exists());
}

#[test]
fn the_operator_says_which_roots_are_allowed_and_what_is_served_is() {
    let mut machine = Machine::new();
    for directory in ["work/app", "home/app", "served/app"] {
        machine.place.dir(directory);
    }
    let work = machine.place.path("work");
    let line = format!("mail.projects.roots = ['{}', '~/sub', '/no/such']\n", work.display());
    machine.place.write("home/.config/fmail/config.toml", &line);
    machine.served.push(machine.place.path("served/app"));
    assert_eq!(machine.create(work.join("app")).root, work.join("app"));
    assert_eq!(machine.create(machine.place.path("served/app")).root, machine.place.path("served/app"));
    assert!(machine.create("app").root.starts_with(machine.data()));
    machine.place.dir("home/sub/app");
    assert_eq!(machine.create("sub/app").root, machine.place.path("home/sub/app"));
    // A neighbour whose name only begins like a root is not below it.
    machine.place.dir("workshop");
    assert!(machine.create(machine.place.path("workshop")).root.starts_with(machine.data()));
}

#[test]
fn no_project_file_says_what_is_allowed_trusted_or_not() {
    let place = Place::new();
    let file = place.write("app/.fmail/config.toml", "mail.projects.roots = ['/']\n");
    let environment = place.environment("app", &[]);
    let project = Project::discover(&environment).unwrap();
    for _ in 0..2 {
        let error = Settings::load(&environment, Some(&project), &[]).unwrap_err();
        assert!(
            error.to_string().contains("mail.projects.roots") && error.to_string().contains("may not set"),
            "{error}"
        );
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
        fmail_host::Review::of(&environment, &project).unwrap().trust(&environment).unwrap();
    }
}

#[test]
fn two_keys_are_two_projects_however_alike() {
    let machine = Machine::new();
    let keys = ["/col/a-b", "/col/a/b", "/COL/A_B", "/col/a-b/-", "/col/a--b", "/col/a.b", "/col-a-b"];
    let found: Vec<HostedProject> = keys.iter().map(|key| machine.create(key)).collect();
    assert_eq!(found[0].slug, "col-a-b");
    for (one, key) in found.iter().zip(keys) {
        assert_eq!(one.key, key);
        assert!(one.slug.starts_with("col-a-b") && one.slug.len() <= "col-a-b".len() + 9, "{}", one.slug);
    }
    let distinct = |of: fn(&HostedProject) -> String| found.iter().map(of).collect::<BTreeSet<_>>().len();
    assert_eq!(distinct(|one| one.slug.clone()), keys.len());
    assert_eq!(distinct(|one| one.id.clone()), keys.len());
    assert_eq!(distinct(|one| one.root.display().to_string()), keys.len());
}

#[test]
fn a_slug_that_looks_like_anothers_with_its_hash_is_given_once() {
    let machine = Machine::new();
    machine.create("/col/a-b");
    let hashed = machine.create("/col/a/b");
    // Its own name is the one that the other got with its hash.
    let imitator = format!("/{}", hashed.slug);
    let imitating = machine.create(&imitator);
    assert_ne!(imitating.slug, hashed.slug);
    // And the other way round: the hashed name is taken before it is needed.
    let other = Machine::new();
    assert_eq!(other.create(&imitator).slug, hashed.slug);
    other.create("/col/a-b");
    let longer = other.create("/col/a/b").slug;
    assert!(longer.starts_with(&hashed.slug) && longer.len() == hashed.slug.len() + 8, "{longer}");
}

#[test]
fn slugs_and_everything_else_are_the_same_after_a_restart_in_whatever_order_it_is_asked() {
    let machine = Machine::new();
    machine.place.dir("home/col/a-b");
    machine.place.dir("home/col/a/b");
    let home = machine.place.path("home");
    let paths =
        [home.join("col/a-b"), home.join("col/a/b"), "/x/y".into(), "/x-y".into(), "/\u{65e5}".into(), "/".into()];
    let first: BTreeMap<PathBuf, HostedProject> =
        paths.iter().map(|path| (path.clone(), HostedProject { new: false, ..machine.create(path) })).collect();
    for path in paths.iter().rev() {
        assert_eq!(machine.find(path, true).unwrap(), first[path]);
    }
    let mut listed = first.into_values().collect::<Vec<_>>();
    listed.sort_by(|a, b| a.slug.cmp(&b.slug));
    assert_eq!(machine.catalogue().hosted().unwrap(), listed);
    assert_eq!(machine.told(), "");
}

#[test]
fn a_path_as_long_as_can_be_has_a_slug_that_is_found_again() {
    let machine = Machine::new();
    let long = |last: char| format!("/{}/{last}", vec!["x".repeat(250); 16].join("/"));
    let (one, two) = (machine.create(long('a')), machine.create(long('b')));
    assert!(one.slug.len() > 4000 && one.slug != two.slug);
    assert_eq!(machine.find(long('a'), false).unwrap().root, one.root);
    assert_eq!(machine.find(&one.root, false).unwrap().key, one.key);
    assert_eq!(machine.catalogue().hosted().unwrap().len(), 2);
}

#[test]
fn a_project_that_others_made_is_known_once_it_was_found() {
    let machine = Machine::new();
    let text = r#"{"id": "theirs", "created": "2026-01-10T08:00:00Z"}"#;
    machine.place.write("home/app/.fmail/project.json", text);
    assert!(machine.catalogue().hosted().unwrap().is_empty());
    let found = machine.find("app", false).unwrap();
    assert_eq!(
        (found.id.as_str(), found.created.to_string().as_str(), found.new),
        ("theirs", "2026-01-10T08:00:00Z", false)
    );
    assert_eq!(machine.catalogue().hosted().unwrap(), [found]);
    assert_eq!(fs::read_to_string(machine.place.path("home/app/.fmail/project.json")).unwrap(), text);
}

#[test]
fn a_project_that_is_gone_is_left_out_and_told_once() {
    let machine = Machine::new();
    machine.place.dir("home/app");
    let (app, key) = (machine.create("app"), machine.create("/col/key"));
    fs::remove_dir_all(app.root.join(".fmail")).unwrap();
    let catalogue = machine.catalogue();
    for _ in 0..3 {
        assert_eq!(catalogue.hosted().unwrap(), [HostedProject { new: false, ..key.clone() }]);
    }
    let told = machine.told();
    assert!(told.lines().count() == 1 && told.contains(&app.slug) && told.contains("home/app"), "{told}");
    // And it says how to be told no more.
    let file = machine.data().join(format!("projects/{}.json", app.slug));
    assert!(told.contains(&format!("to forget it, remove {}", file.display())), "{told}");
    assert_eq!(machine.find("app", false).unwrap_err().kind(), ErrorKind::InvalidProject);
    let again = machine.create("app");
    assert!(again.new && again.slug == app.slug);
}

#[test]
fn a_broken_memory_of_one_project_is_told_and_disturbs_no_other() {
    let machine = Machine::new();
    let (one, two) = (machine.create("/col/one"), machine.create("/col/two"));
    let file = machine.data().join("projects/col-one.json");
    fs::write(&file, "{").unwrap();
    let error = machine.find("/col/one", true).unwrap_err();
    assert!(error.kind() == ErrorKind::Corrupt && error.to_string().contains("col-one.json"), "{error}");
    assert_eq!(machine.catalogue().hosted().unwrap(), [HostedProject { new: false, ..two }]);
    assert!(machine.told().contains("col-one.json"), "{}", machine.told());
    // As the error says: its removal heals.
    fs::remove_file(&file).unwrap();
    assert_eq!(machine.create("/col/one"), HostedProject { new: false, ..one });
}

#[test]
fn a_directory_that_appears_where_a_key_was_is_told_and_both_stay() {
    let machine = Machine::new();
    let key = machine.create("later");
    machine.place.dir("home/later");
    let directory = machine.create("later");
    assert_eq!(directory.root, machine.place.path("home/later"));
    assert!(directory.slug != key.slug && machine.told().contains(&key.slug), "{}", machine.told());
    assert!(machine.told().contains("served from its directory now"), "{}", machine.told());
    assert_eq!(machine.catalogue().hosted().unwrap().len(), 2);
    assert_eq!(machine.find(&key.root, false).unwrap().slug, key.slug);
}

#[test]
fn an_allowed_root_itself_becomes_no_project_unless_its_owner_made_it_one() {
    let mut machine = Machine::new();
    let home = machine.place.path("home");
    machine.place.dir("home/x1");
    let before = machine.everything();
    let error = machine.find("", true).unwrap_err();
    assert!(error.kind() == ErrorKind::Denied && error.to_string().contains("fmail init"), "{error}");
    // Nor because a program was started there.
    machine.served.push(home.clone());
    assert!(machine.find("", true).is_err());
    assert_eq!(machine.everything(), before);
    assert_eq!(machine.create("x1").root, home.join("x1"));
    machine.place.dir("home/.fmail");
    machine.place.dir("home/x2");
    assert_eq!(machine.create("").root, home);
    assert_eq!(machine.create("x2").root, home, "as the command line finds it");
}

#[test]
fn a_project_outside_of_the_roots_is_not_said_to_be_missing() {
    let machine = Machine::new();
    machine.place.dir("outside/app/.fmail");
    let outside = machine.place.path("outside/app");
    let error = machine.find(&outside, false).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidProject);
    let text = error.to_string();
    assert!(text.contains("not below an allowed root") && text.contains(outside.to_str().unwrap()), "{text}");
    assert!(error.help_text().unwrap().contains("mail.projects.roots"));
}

#[test]
fn a_data_directory_that_others_can_write_is_refused() {
    let machine = Machine::new();
    let data = machine.place.dir("home/.local/share/fmail/projects");
    fs::set_permissions(&data, fs::Permissions::from_mode(0o777)).unwrap();
    let error = machine.find("/col/a", true).unwrap_err();
    assert!(error.kind() == ErrorKind::Denied && error.to_string().contains("0777"), "{error}");
}

#[test]
fn a_project_whose_store_cannot_be_opened_is_not_created() {
    let machine = Machine::new();
    machine.place.dir("home/app");
    machine.place.write("home/.config/fmail/config.toml", "mail.store = 'nowhere'\n");
    let environment = machine.environment();
    let catalogue = Catalogue::new(&environment, &Settings::default(), &[], Arc::new(|_| {})).unwrap();
    let error = catalogue.find(&machine.place.path("home/app"), true).unwrap_err();
    assert!(error.kind() == ErrorKind::InvalidConfig && error.to_string().contains("nowhere"), "{error}");
    assert!(!machine.place.path("home/app/.fmail").exists());
}

#[test]
fn only_a_root_that_was_told_is_opened() {
    let machine = Machine::new();
    machine.place.dir("home/app/src");
    let (app, key) = (machine.create("app"), machine.create("/col/key"));
    let catalogue = machine.catalogue();
    for found in [&app, &key] {
        assert_eq!(catalogue.project(&found.root).unwrap().id().unwrap().0, found.id);
    }
    for root in [app.root.join("src"), "/col/key".into(), "/etc".into(), machine.place.path("home"), "app".into()] {
        assert!(catalogue.project(&root).is_err(), "{}", root.display());
    }
}

#[test]
fn variables_that_name_one_project_do_not_name_the_others() {
    let machine = Machine::new();
    machine.place.dir("home/app");
    let other = machine.place.dir("other").display().to_string();
    let environment = machine.place.environment("elsewhere", &[("FMAIL_ROOT", &other), ("FMAIL_PROJECT", "mine")]);
    let catalogue = Catalogue::new(&environment, &Settings::default(), &[], Arc::new(|_| {})).unwrap();
    let found = catalogue.find(&machine.place.path("home/app"), true).unwrap();
    assert!(found.root == machine.place.path("home/app") && found.id != "mine", "{found:?}");
}
