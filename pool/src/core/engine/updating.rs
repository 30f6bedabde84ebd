//! The store's answers to the calls that give jobs another payload.

use super::Engine;
use crate::core::batcher::may_be_done;
use crate::core::call::Done;
use crate::store::Result;

impl Engine {
    pub(super) fn on_updates(&mut self, done: Done) -> Result<()> {
        let (news, key, error) = match done {
            Done::Update(_, Ok(replies)) => {
                self.updating.on_updated(&mut self.ctx, &replies);
                return Ok(());
            }
            Done::Update(_, Err(error)) => {
                let (news, key) = self.updating.send_again(&mut self.ctx, &error, may_be_done(&error));
                (news, key, error)
            }
            Done::LookToUpdate(_, Ok(found)) => {
                let normal = self.is_normal();
                self.updating.on_looked(&mut self.ctx, found, normal);
                return Ok(());
            }
            Done::LookToUpdate(_, Err(error)) => {
                let (news, key) = self.updating.look_again(&mut self.ctx, &error);
                (news, key, error)
            }
            _ => return Ok(()),
        };
        self.heard(news, key, error)
    }
}
