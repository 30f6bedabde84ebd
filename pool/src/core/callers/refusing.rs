//! Requests that the store refuses as a whole: the user lacks a right, or the memory is full.

use super::requests::Requests;
use crate::core::batcher::may_be_done;
use crate::core::ctx::Ctx;
use crate::core::input::ReplyTo;
use crate::store::StoreError;

impl Requests {
    /// A call with these requests has failed. Answers the requests that the store refuses, unless an earlier call may have
    /// carried them out. Returns the rest, to be sent again.
    pub(super) fn refused(&mut self, ctx: &mut Ctx, items: Vec<ReplyTo>, error: &StoreError) -> Vec<ReplyTo> {
        if !error.is_refusal() {
            let may_be_done = may_be_done(error);
            for to in &items {
                self.open.get_mut(to).into_iter().for_each(|request| request.unanswered |= may_be_done);
            }
        }
        let is_open = |to: &ReplyTo| self.open.get(to).is_some_and(|request| request.unanswered);
        let (again, refused) = split(items, error, is_open);
        for to in refused {
            self.finish(ctx, to, Err(error.clone().into()));
        }
        again
    }
}

/// The items of a failed call in two parts: items to send again, and items that the store refuses. An item that an earlier
/// call may have carried out goes again.
pub(super) fn split(
    items: Vec<ReplyTo>,
    error: &StoreError,
    may_be_done: impl Fn(&ReplyTo) -> bool,
) -> (Vec<ReplyTo>, Vec<ReplyTo>) {
    if error.is_refusal() { items.into_iter().partition(may_be_done) } else { (items, Vec::new()) }
}
