//! The operations of fmail, over any [`fmail_api::Store`].
