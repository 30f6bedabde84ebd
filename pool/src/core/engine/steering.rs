//! The store's answers to the calls that retry parked jobs and steer single ones.

use super::Engine;
use crate::core::batcher::may_be_done;
use crate::store::{Refusal, Result, SteerReply, StoreError, UnparkReply};

impl Engine {
    pub(super) fn on_unparks(&mut self, answer: Result<Vec<UnparkReply>>) -> Result<()> {
        match answer {
            Ok(replies) => self.requests.on_unparked(&mut self.ctx, &replies),
            Err(StoreError::Refused(Refusal::ShuttingDown)) => self.requests.on_unpark_shut(&mut self.ctx),
            Err(error) => {
                let again = self.requests.unpark_again(&mut self.ctx, &error, may_be_done(&error));
                return self.heard(again.0, again.1, error);
            }
        }
        Ok(())
    }

    pub(super) fn on_steers(&mut self, answer: Result<Vec<SteerReply>>) -> Result<()> {
        match answer {
            Ok(replies) => self.requests.on_steered(&mut self.ctx, &replies),
            Err(StoreError::Refused(Refusal::ShuttingDown)) => self.requests.on_steer_shut(&mut self.ctx),
            Err(error) => {
                let (news, key) = self.requests.steer_again(&mut self.ctx, &error);
                return self.heard(news, key, error);
            }
        }
        Ok(())
    }
}
