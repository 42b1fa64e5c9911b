//! The methods of a store that keeps the states of mail itself.

use std::sync::Arc;

use fmail_abi::Work;
use fmail_api::verbs::{self, CountVerb, InboxVerb, MailItem, MailVerb, MarkAnswer, MarkVerb, ThreadVerb, method};
use fmail_api::{Error, Mail, Mailbox, Result, Store};
use futures::{StreamExt, stream};

use super::{Items, NOTHING, answering, asked, streaming, unknown};

/// Begins a method of the facet; all others are unknown.
pub(super) fn begin(store: Arc<dyn Store>, method: &str, request: &[u8]) -> Result<Work> {
    Ok(match method {
        method::MAIL_INBOX => {
            let InboxVerb { agent, folder } = asked(method, request)?;
            streaming(async move { Ok(listed(facet(&*store)?.inbox(&agent, folder).await?)) })
        }
        method::MAIL_PEEK => {
            let MailVerb { agent, id } = asked(method, request)?;
            answering(async move { Ok(encoded(facet(&*store)?.peek(&agent, id).await?)) })
        }
        method::MAIL_READ => {
            let MailVerb { agent, id } = asked(method, request)?;
            answering(async move { Ok(encoded(facet(&*store)?.read(&agent, id).await?)) })
        }
        method::MAIL_MARK => {
            let MarkVerb { agent, id, mark } = asked(method, request)?;
            answering(async move {
                let changed = facet(&*store)?.mark(&agent, id, mark).await?;
                Ok(verbs::encode(&MarkAnswer { changed }))
            })
        }
        method::MAIL_COUNT => {
            let CountVerb { agent } = asked(method, request)?;
            answering(async move { Ok(verbs::encode(&facet(&*store)?.count(&agent).await?)) })
        }
        method::MAIL_THREAD => {
            let ThreadVerb { agent, thread } = asked(method, request)?;
            streaming(async move { Ok(listed(facet(&*store)?.thread(&agent, &thread).await?)) })
        }
        _ => unknown("a store", method),
    })
}

/// The facet. A manifest that claims it without one makes no instance; a host that asks all the same is told.
fn facet(store: &dyn Store) -> Result<&dyn Mailbox> {
    store.mailbox().ok_or_else(|| Error::unsupported("keep the states of mail: its manifest does not claim `mailbox`"))
}

fn encoded(mail: Mail) -> Vec<u8> {
    verbs::encode(&MailItem::from(mail))
}

fn listed(mail: Vec<Mail>) -> (Vec<u8>, Items) {
    (NOTHING.to_vec(), stream::iter(mail).map(|mail| Ok(encoded(mail))).boxed())
}
