//! Two sides that do not agree which project this is.

use fmail_api::{Error, ErrorKind, ProjectIdSource};
use fmail_host::Project;

/// Says what we called the project, and why, when the daemon in its very directory serves it under another id. The daemon
/// knows its own id only, and cannot tell where ours comes from.
pub(super) fn with_our_id(error: Error, project: &Project) -> Error {
    // Whatever else a daemon refuses so, it says itself what to do about it.
    if error.kind() != ErrorKind::InvalidProject || error.help_text().is_some() {
        return error;
    }
    let Ok((id, source)) = project.id() else { return error };
    let text = format!("{}: {} names `{id}`", error.message(), word(source));
    Error::new(error.kind(), text).help(match source {
        ProjectIdSource::Environment => {
            "unset FMAIL_PROJECT here, or end forged with `forged stop` and start it with the same FMAIL_PROJECT"
        }
        _ => {
            "forged may have been started with FMAIL_PROJECT: set the same here, or end it with `forged stop` and start \
             it without"
        }
    })
}

/// Where an id comes from.
fn word(source: ProjectIdSource) -> &'static str {
    match source {
        ProjectIdSource::Environment => "FMAIL_PROJECT",
        ProjectIdSource::Init => "project.json",
        ProjectIdSource::Remote => "the git remote origin",
        ProjectIdSource::Directory => "the directory",
    }
}

#[cfg(test)]
mod tests {
    use fmail_host::Environment;

    use super::*;

    fn told(variable: Option<&str>, error: Error) -> Error {
        let root = tempfile::tempdir().unwrap();
        let variables = variable.map(|id| ("FMAIL_PROJECT".to_string(), id.to_string())).into_iter().collect();
        with_our_id(error, &Project::discover(&Environment::new(root.path(), variables)).unwrap())
    }

    #[test]
    fn a_refused_id_is_told_with_where_it_comes_from() {
        let refused = || Error::new(ErrorKind::InvalidProject, "this is the project p");
        let error = told(Some("zzz"), refused());
        assert_eq!(error.message(), "this is the project p: FMAIL_PROJECT names `zzz`");
        assert!(error.help_text().unwrap().contains("unset FMAIL_PROJECT"));
        let error = told(None, refused());
        assert!(error.message().contains("the directory names `proj-"), "{error}");
        assert!(error.help_text().unwrap().contains("started with FMAIL_PROJECT"));
    }

    #[test]
    fn what_has_another_reason_stays_as_it_is() {
        for error in [
            Error::new(ErrorKind::InvalidProject, "it is gone").help("start forged again"),
            Error::not_found("no such message"),
        ] {
            assert_eq!(told(Some("zzz"), error.clone()).to_string(), error.to_string());
        }
    }
}
