//! One name for a repository, however its url is written.

/// Brings the url of a remote into a form in which the ssh and the https clones of one repository agree:
/// `host/path`, without scheme, user, password, default port, `.git` and slashes at the ends; the host in lower case.
///
/// The path keeps its case, because most servers distinguish it. A port that is not the scheme's own stays: it may be
/// another server.
pub fn normalise(url: &str) -> String {
    let url = url.trim();
    match url.split_once("://") {
        Some((scheme, rest)) => with_scheme(&scheme.to_ascii_lowercase(), rest),
        None => match scp_like(url) {
            Some((host, path)) => joined(host, "22", path),
            None => trimmed(url).to_string(),
        },
    }
}

fn with_scheme(scheme: &str, rest: &str) -> String {
    let default_port = match scheme {
        "file" => return trimmed(rest).to_string(),
        "ssh" | "git+ssh" | "ssh+git" => "22",
        "https" => "443",
        "http" => "80",
        "git" => "9418",
        _ => "",
    };
    let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
    joined(authority, default_port, path)
}

/// `[user@]host:path`, git's short form of ssh. A slash before the colon makes it a local path.
fn scp_like(url: &str) -> Option<(&str, &str)> {
    // An IPv6 address, or a host with its port, stands in brackets and has colons of its own.
    let from = url.find("]:").map_or(0, |end| end + 1);
    let colon = from + url[from..].find(':')?;
    (colon > 0 && !url[..colon].contains('/')).then(|| (&url[..colon], &url[colon + 1..]))
}

fn joined(authority: &str, default_port: &str, path: &str) -> String {
    let authority = without_brackets(authority);
    let host = without_brackets(authority.rsplit_once('@').map_or(authority, |(_, host)| host));
    let host = match host.rsplit_once(':') {
        Some((name, port)) if port == default_port || port.is_empty() => name,
        _ => host,
    };
    format!("{}/{}", host.to_ascii_lowercase(), trimmed(path).trim_start_matches('/'))
}

/// `[host:port]:path` is scp's way to give a port; an IPv6 address has more than one colon and keeps its brackets.
fn without_brackets(host: &str) -> &str {
    match host.strip_prefix('[').and_then(|host| host.strip_suffix(']')) {
        Some(inner) if inner.matches(':').count() < 2 => inner,
        _ => host,
    }
}

fn trimmed(path: &str) -> &str {
    let path = path.trim_end_matches('/');
    let short = path.strip_suffix(".git").unwrap_or(path);
    // A local repository may be called `.git` and nothing else; its name is what stands before.
    short.trim_end_matches('/')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_forms_of_one_repository_agree() {
        for url in [
            "git@github.com:owner/repo.git",
            "github.com:owner/repo",
            "git@github.com:/owner/repo/",
            "[git@github.com:22]:owner/repo.git",
            "git@[github.com:22]:owner/repo.git",
            "ssh://git@github.com/owner/repo.git",
            "ssh://git@GitHub.com:22/owner/repo.git/",
            "git+ssh://git@github.com/owner/repo",
            "https://github.com/owner/repo",
            "https://github.com/owner/repo.git",
            "HTTPS://user:secret@GITHUB.COM:443/owner/repo.git/",
            "https://user@mail@github.com/owner/repo",
            "http://github.com:80/owner/repo",
            "git://github.com/owner/repo.git",
            " https://github.com//owner/repo ",
        ] {
            assert_eq!(normalise(url), "github.com/owner/repo", "{url}");
        }
    }

    #[test]
    fn different_repositories_stay_different() {
        let forms = [
            "https://github.com/owner/repo",
            "https://github.com/owner/Repo",
            "https://github.com/other/repo",
            "https://example.org/owner/repo",
            "https://github.com:8443/owner/repo",
            "ssh://git@[2001:db8::1]/owner/repo",
            "ssh://git@[2001:db8::2]/owner/repo",
            "/srv/git/repo",
            "../repo",
        ];
        let mut names: Vec<String> = forms.iter().map(|form| normalise(form)).collect();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), forms.len());
    }

    #[test]
    fn local_and_odd_urls() {
        for (url, name) in [
            ("/srv/git/repo.git", "/srv/git/repo"),
            ("/srv/app/.git", "/srv/app"),
            ("file:///srv/git/repo.git/", "/srv/git/repo"),
            ("./a:b", "./a:b"),
            ("git@[2001:db8::1]:owner/repo.git", "[2001:db8::1]/owner/repo"),
            ("ssh://[2001:db8::1]:22/owner/repo", "[2001:db8::1]/owner/repo"),
            ("ssh://host:2222/owner/repo", "host:2222/owner/repo"),
            ("", ""),
            ("https://", "/"),
        ] {
            assert_eq!(normalise(url), name, "{url}");
        }
    }
}
