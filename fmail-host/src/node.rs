//! Which host this is.
//!
//! The id is random and made once for each user of a machine. It lies outside of every project, so that a project that is
//! copied or comes through git does not bring another host's id along.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use fmail_api::{Error, ErrorKind, Node, NodeId, Result};
use rustix::rand::{GetRandomFlags, getrandom};

use crate::Environment;
use crate::file::{Links, read_small};
use crate::hosting::{make_private, user_data};

/// Where the id of this host lies: the file `node` in the user's data directory of fmail.
pub fn node_file(environment: &Environment) -> Result<PathBuf> {
    Ok(user_data(environment)?.join("node"))
}

/// This host, in a run that begins now. Its id is made where there is none.
pub fn this_node(environment: &Environment) -> Result<Node> {
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    Ok(Node { id: lasting_id(&node_file(environment)?)?, run: random()?, host })
}

/// The id of this host, if it has one: who only looks makes none.
pub fn known_node(environment: &Environment) -> Option<NodeId> {
    read(&node_file(environment).ok()?).ok()?
}

/// The id in the file, or a new one that stands there from now on. Of several processes that find none, all get the id of
/// the one that was first: the file comes into being whole, by a link that fails where one is.
fn lasting_id(path: &Path) -> Result<NodeId> {
    if let Some(id) = read(path)? {
        return Ok(id);
    }
    let directory = path.parent().ok_or_else(|| Error::internal("the node's file has no directory"))?;
    make_private(directory)?;
    let failed = |error: io::Error| Error::io(format_args!("cannot write {}", path.display()), &error);
    let run = random()?;
    let temporary = directory.join(format!("node.{run}.tmp"));
    let write = || {
        let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&temporary)?;
        file.write_all(format!("{}\n", random().map_err(io::Error::other)?).as_bytes())?;
        file.sync_all()?;
        match fs::hard_link(&temporary, path) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
            _ => fs::File::open(directory)?.sync_all(),
        }
    };
    let written = write();
    // It has its name by now, or is of no use.
    let _ = fs::remove_file(&temporary);
    written.map_err(failed)?;
    read(path)?.ok_or_else(|| failed(io::ErrorKind::NotFound.into()))
}

fn read(path: &Path) -> Result<Option<NodeId>> {
    let Some(text) = read_small(path, Links::Refuse, ErrorKind::Corrupt)? else { return Ok(None) };
    text.trim_end().parse().map(Some).map_err(|_| {
        Error::new(ErrorKind::Corrupt, "this is not the id of a host: 32 hexadecimal digits are expected")
            .context("file", path.display())
            .help("put it back from a backup; or remove it, and this host gets a new id when forged starts again")
    })
}

fn random() -> Result<NodeId> {
    let mut bytes = [0; 16];
    let mut filled = 0;
    while filled < bytes.len() {
        filled += getrandom(&mut bytes[filled..], GetRandomFlags::empty())
            .map_err(|error| Error::io("the system gives no random numbers", &error.into()))?;
    }
    Ok(NodeId::new(u128::from_le_bytes(bytes)))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;

    fn environment(home: &Path) -> Environment {
        Environment::new(home, [("HOME".to_string(), home.to_str().unwrap().to_string())].into())
    }

    #[test]
    fn a_host_keeps_its_id_and_each_run_is_another() {
        let home = tempfile::tempdir().unwrap();
        let environment = environment(home.path());
        let (one, two) = (this_node(&environment).unwrap(), this_node(&environment).unwrap());
        assert_eq!(one.id, two.id);
        assert!(one.run != two.run && !one.host.is_empty());
        let file = node_file(&environment).unwrap();
        assert_eq!(fs::metadata(&file).unwrap().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(file.parent().unwrap()).unwrap().count(), 1, "a temporary is left");
    }

    #[test]
    fn of_several_that_begin_at_once_all_get_one_id() {
        let home = tempfile::tempdir().unwrap();
        let environment = environment(home.path());
        let ids: Vec<NodeId> = std::thread::scope(|scope| {
            let begin = || scope.spawn(|| this_node(&environment).unwrap().id);
            let threads: Vec<_> = (0..8).map(|_| begin()).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert!(ids.iter().all(|id| *id == ids[0]), "{ids:?}");
    }

    #[test]
    fn a_damaged_file_is_an_error_that_says_what_to_do() {
        let home = tempfile::tempdir().unwrap();
        let environment = environment(home.path());
        this_node(&environment).unwrap();
        let file = node_file(&environment).unwrap();
        fs::write(&file, "7\n").unwrap();
        let error = this_node(&environment).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt);
        assert!(error.to_string().contains("node") && error.help_text().unwrap().contains("remove it"), "{error:?}");
        assert_eq!(fs::read_to_string(&file).unwrap(), "7\n", "it is left as it is");
    }
}
