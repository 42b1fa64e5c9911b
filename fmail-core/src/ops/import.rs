//! `import`: a message that another host has given its id.

use fmail_api::{Error, ImportRequest, Imported, Result};

use crate::Operations;

impl Operations {
    /// Stores the message as the store decides: new, there already, under another id, or refused. Who may ask is decided
    /// where the request comes in.
    pub(crate) async fn import(&self, request: ImportRequest) -> Result<Imported> {
        if !self.store.capabilities().import {
            return Err(Error::unsupported("take messages from other hosts"));
        }
        self.store.import(request.message).await
    }
}

#[cfg(test)]
mod tests {
    use fmail_api::{ImportRequest, Imported, Request, Response};

    use crate::testing::Project;

    #[test]
    fn what_is_there_is_not_imported_again() {
        let (here, there) = (Project::new(), Project::new());
        let message = there.send("bob", "task", "hello").message;
        let import =
            || match here.call("peer", Request::Import(Box::new(ImportRequest::new(message.clone())))).unwrap().head {
                Response::Imported(imported) => imported,
                other => panic!("{other:?}"),
            };
        assert_eq!(import(), Imported::New);
        assert_eq!(import(), Imported::Duplicate);
    }
}
