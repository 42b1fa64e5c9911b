//! Which directory is the project's, in real directories and real git repositories.

mod common;

use std::os::unix::fs::symlink;

use common::{Place, git, repository};
use fmail_api::ErrorKind;
use fmail_host::RootReason;

#[track_caller]
fn check(place: &Place, cwd: &str, root: &str, reason: RootReason) {
    let project = place.project(cwd, &[]).unwrap();
    assert_eq!((project.root.clone(), project.reason), (place.path(root), reason), "from {cwd}");
    assert_eq!(project.fmail_dir(), place.path(root).join(".fmail"));
}

#[test]
fn nothing_found_is_the_current_directory_and_nothing_is_created() {
    let place = Place::new();
    check(&place, "a/b", "a/b", RootReason::CurrentDirectory);
    assert!(!place.path("a/b/.fmail").exists());
}

#[test]
fn the_nearest_fmail_upward_is_found_from_below_and_from_inside() {
    let place = Place::new();
    place.dir("a/.fmail/topics");
    for cwd in ["a", "a/b/c", "a/.fmail", "a/.fmail/topics"] {
        check(&place, cwd, "a", RootReason::Fmail);
    }
    place.dir("a/b/.fmail");
    check(&place, "a/b/c", "a/b", RootReason::Fmail);
}

#[test]
fn fmail_upward_wins_over_a_nearer_git() {
    let place = Place::new();
    place.dir("a/.fmail");
    repository(&place, "a/repo");
    check(&place, "a/repo/src", "a", RootReason::Fmail);
}

#[test]
fn the_git_root_is_the_project() {
    let place = Place::new();
    repository(&place, "repo");
    check(&place, "repo", "repo", RootReason::Git);
    check(&place, "repo/src/deep", "repo", RootReason::Git);
}

#[test]
fn a_linked_worktree_belongs_to_the_main_one() {
    let place = Place::new();
    let repo = repository(&place, "repo");
    git(&repo, &["worktree", "add", "-q", "../linked"]);
    git(&repo, &["worktree", "add", "-q", ".worktrees/inner", "-b", "inner"]);
    check(&place, "linked", "repo", RootReason::MainWorktree);
    check(&place, "linked/src", "repo", RootReason::MainWorktree);
    check(&place, "repo/.worktrees/inner", "repo", RootReason::MainWorktree);
    place.dir("linked/.fmail");
    check(&place, "linked/src", "linked", RootReason::Fmail);
}

#[test]
fn a_linked_worktree_with_relative_paths_belongs_to_the_main_one() {
    let place = Place::new();
    let repo = repository(&place, "repo");
    git(&repo, &["worktree", "add", "-q", "../linked"]);
    place.write("linked/.git", "gitdir: ../repo/.git/worktrees/linked\n");
    check(&place, "linked", "repo", RootReason::MainWorktree);
}

#[test]
fn all_worktrees_share_the_project_above_the_main_one() {
    let place = Place::new();
    let repo = repository(&place, "all/repo");
    git(&repo, &["worktree", "add", "-q", "../../linked"]);
    place.dir("all/.fmail");
    check(&place, "all/repo", "all", RootReason::Fmail);
    check(&place, "linked", "all", RootReason::MainWorktree);
}

#[test]
fn a_worktree_of_a_bare_repository_stands_for_itself() {
    let place = Place::new();
    let repo = repository(&place, "source");
    for bare in ["bare.git", "project/.bare", "hidden/.git"] {
        let path = place.path(bare).display().to_string();
        git(&repo, &["clone", "-q", "--bare", ".", &path]);
        let tree = format!("tree-of-{}", bare.replace(['/', '.'], "-"));
        git(&place.path(bare), &["worktree", "add", "-q", &place.path(&tree).display().to_string()]);
        check(&place, &tree, &tree, RootReason::Git);
    }
}

#[test]
fn a_bare_repository_with_worktree_settings_is_still_bare() {
    let place = Place::new();
    let repo = repository(&place, "source");
    git(&repo, &["clone", "-q", "--bare", ".", "../hidden/.git"]);
    let bare = place.path("hidden/.git");
    git(&bare, &["worktree", "add", "-q", "../../tree"]);
    git(&place.path("tree"), &["sparse-checkout", "init"]);
    check(&place, "tree", "tree", RootReason::Git);
}

#[test]
fn a_submodule_is_its_own_root_and_so_is_a_separate_git_dir() {
    let place = Place::new();
    repository(&place, "library");
    let app = repository(&place, "app");
    git(&app, &["submodule", "--quiet", "add", "../library", "vendor/library"]);
    check(&place, "app/vendor/library/src", "app/vendor/library", RootReason::Git);
    check(&place, "app/vendor", "app", RootReason::Git);

    // The main worktree of a submodule's worktree is the submodule.
    git(&place.path("app/vendor/library"), &["worktree", "add", "-q", &place.path("sub-tree").display().to_string()]);
    check(&place, "sub-tree", "app/vendor/library", RootReason::MainWorktree);

    let apart = place.dir("apart");
    git(&apart, &["init", "-q", "--separate-git-dir", "../elsewhere.git"]);
    check(&place, "apart/src", "apart", RootReason::Git);
}

#[test]
fn a_worktree_whose_repository_is_not_here_stands_for_itself() {
    let place = Place::new();
    place.write("mounted/.git", "gitdir: /nonexistent/repo/.git/worktrees/mounted\n");
    check(&place, "mounted/src", "mounted", RootReason::Git);
}

#[test]
fn a_git_file_that_says_nothing_is_an_error() {
    let place = Place::new();
    for text in ["", "gitdir:\n", "hello"] {
        place.write("repo/.git", text);
        let error = place.project("repo", &[]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidProject, "{error}");
        assert!(error.help_text().unwrap().contains("FMAIL_ROOT"));
    }
}

#[test]
fn the_variable_decides_alone() {
    let place = Place::new();
    place.dir("a/.fmail");
    let named = place.dir("b");
    let project = place.project("a", &[("FMAIL_ROOT", named.to_str().unwrap())]).unwrap();
    assert_eq!((project.root, project.reason), (named.clone(), RootReason::Variable));
    let relative = place.project("a", &[("FMAIL_ROOT", "../b")]).unwrap();
    assert_eq!(relative.root.canonicalize().unwrap(), named);
    // The user may name a link: the user chose it.
    symlink(&named, place.path("link")).unwrap();
    assert!(place.project("a", &[("FMAIL_ROOT", place.path("link").to_str().unwrap())]).is_ok());
}

#[test]
fn a_variable_that_names_no_directory_is_an_error() {
    let place = Place::new();
    place.write("file", "");
    place.dir("a/.fmail");
    for wrong in ["", "../missing", "../file", "../file/x", ".fmail"] {
        let error = place.project("a", &[("FMAIL_ROOT", wrong)]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidProject, "{wrong}: {error}");
        assert!(error.to_string().starts_with("FMAIL_ROOT: "), "{error}");
        assert!(error.help_text().is_some());
    }
}

#[test]
fn a_fmail_that_is_a_file_or_a_link_is_an_error_that_names_the_way_out() {
    let place = Place::new();
    place.dir("real/.fmail");
    place.dir("above/.fmail");
    place.write("above/file/.fmail", "");
    place.dir("above/link");
    symlink(place.path("real/.fmail"), place.path("above/link/.fmail")).unwrap();
    place.dir("above/dangling");
    symlink("nowhere", place.path("above/dangling/.fmail")).unwrap();
    for (cwd, what) in [("above/file", "not a directory"), ("above/link", "link"), ("above/dangling", "link")] {
        let named = place.path(cwd);
        for error in [
            place.project(&format!("{cwd}/src"), &[]).unwrap_err(),
            place.project("real", &[("FMAIL_ROOT", named.to_str().unwrap())]).unwrap_err(),
        ] {
            assert_eq!(error.kind(), ErrorKind::InvalidProject);
            assert!(error.to_string().contains(what) && error.to_string().contains(".fmail"), "{error}");
            assert!(error.help_text().unwrap().contains("FMAIL_ROOT"));
        }
    }
}

#[test]
fn the_main_worktree_is_held_to_the_same_rules() {
    let place = Place::new();
    let repo = repository(&place, "repo");
    git(&repo, &["worktree", "add", "-q", "../linked"]);
    symlink("/tmp", place.path("repo/.fmail")).unwrap();
    assert_eq!(place.project("linked", &[]).unwrap_err().kind(), ErrorKind::InvalidProject);
}

#[test]
fn reasons_read_as_documented() {
    let texts = [
        (RootReason::Variable, "FMAIL_ROOT"),
        (RootReason::Fmail, ".fmail found"),
        (RootReason::Git, "git root"),
        (RootReason::MainWorktree, "main worktree of a linked git worktree"),
        (RootReason::CurrentDirectory, "current directory"),
    ];
    for (reason, text) in texts {
        assert_eq!(reason.to_string(), text);
    }
}

/// The place in the project of `root` that a file has.
#[track_caller]
fn check_place(place: &Place, root: &str, file: &str, expect: Option<&str>) {
    let project = place.project(root, &[("FMAIL_ROOT", ".")]).unwrap();
    let found = project.place_of(&place.path(file)).unwrap();
    assert_eq!(found.as_deref().and_then(std::path::Path::to_str), expect, "{file} in {root}");
}

#[test]
fn a_file_has_its_place_below_the_root_and_worktrees_share_places() {
    let place = Place::new();
    let repo = repository(&place, "all/repo");
    git(&repo, &["worktree", "add", "-q", "../../linked"]);
    git(&repo, &["worktree", "add", "-q", ".worktrees/inner", "-b", "inner"]);
    for file in ["all/repo/src/a.rs", "linked/src/a.rs", "all/repo/.worktrees/inner/src/a.rs"] {
        check_place(&place, "all/repo", file, Some("src/a.rs"));
        check_place(&place, "all", file, Some("repo/src/a.rs"));
    }
    check_place(&place, "all/repo", "all/repo", Some(""));
    check_place(&place, "all/repo", "all/repository/a.rs", None);
    check_place(&place, "all/repo", "elsewhere/a.rs", None);
    check_place(&place, "all/repo", &format!("all/repo/{}", "x".repeat(300)), Some(&"x".repeat(300)));
    // A worktree that is a project of its own stands for itself.
    check_place(&place, "linked", "linked/src/a.rs", Some("src/a.rs"));
    check_place(&place, "linked/src", "linked/src/a.rs", Some("a.rs"));
    check_place(&place, "linked", "all/repo/src/a.rs", None);
}
