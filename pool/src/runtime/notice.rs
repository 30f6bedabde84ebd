//! What an operator hears of: each notice of the core as one structured event. Quiet in steady state.

use crate::core::effect::{Attested, Notice};
use crate::id::NodeName;
use crate::store::StoreError;

pub(super) fn log(node: &NodeName, notice: &Notice) {
    match notice {
        Notice::Recovering { incarnation, wait } => {
            tracing::info!(%node, incarnation = incarnation.0, ?wait, "the pool is being opened; jobs start after the wait");
        }
        Notice::Normal { incarnation } => {
            tracing::info!(%node, incarnation = incarnation.0, "the pool is open");
        }
        Notice::Trouble(error @ (StoreError::Unusable(source) | StoreError::Damaged(source))) => {
            tracing::error!(%node, %error, %source, "the store did not do a step, it is tried again");
        }
        Notice::Trouble(StoreError::Refused(why)) => {
            tracing::error!(%node, error = %why, "the store refuses a step, it is tried again");
        }
        Notice::Trouble(error) => {
            tracing::debug!(%node, ?error, "the store did not do a step, it is tried again");
        }
        Notice::SetAside { key, error } => {
            let source = std::error::Error::source(error).map(ToString::to_string).unwrap_or_default();
            tracing::error!(%node, %key, %error, ?source, "a step fails on this job, it is tried again after a pause, and others go on");
        }
        Notice::Expired { worker } => {
            tracing::warn!(%node, worker = worker.0, "a worker was silent for its time to live: its jobs move");
        }
        Notice::Fenced { worker, jobs } => {
            tracing::warn!(%node, worker = worker.0, jobs, "a worker of this node lost its lease: its jobs are ended here");
        }
        Notice::Attested { worker, count } => {
            let Attested { kept, stopped, outranked, unreadable, ended, requeued, gone } = *count;
            if stopped + outranked + unreadable + gone == 0 {
                tracing::info!(%node, worker = worker.0, kept, ended, requeued, "the pool's data were lost, or may have been: jobs run on");
            } else {
                tracing::warn!(%node, worker = worker.0, kept, stopped, outranked, unreadable, ended, requeued, gone, "the pool's data were lost, or may have been: jobs run on, others are ended or have no record");
            }
        }
        Notice::Outranked { key, token } => {
            tracing::error!(%node, %key, token = token.0, "a job that runs here was given away, or given here anew: this run of it is ended at once");
        }
        Notice::NotTakenBack { error } => {
            tracing::error!(%node, %error, "the pool refuses to have a worker of this node back, it asks again now and then");
        }
        Notice::BadRecord { key } => {
            tracing::error!(%node, %key, "the record of a job cannot be read, it is left as it is");
        }
        Notice::Unreadable { key, error } => {
            tracing::warn!(%node, %key, error, "the payload of a job cannot be read, it is not started here");
        }
        Notice::StopFailed { key, error } => {
            tracing::warn!(%node, %key, error, "a stop handler failed; the job has ended");
        }
        Notice::Stuck { key, token } => {
            tracing::error!(%node, %key, token = token.0, "a handler does not end when aborted: its job stays here");
        }
        Notice::PlanFailed { plan, error } => {
            tracing::warn!(%node, %plan, error, "a plan failed, or was not carried out whole; its next tick comes");
        }
        Notice::BadSchedule { schedule } => {
            tracing::error!(%node, %schedule, "the entry of a schedule cannot be read, it is left as it is");
        }
        Notice::Failed { key, token, attempts, error, again_in: Some(pause), .. } => {
            tracing::warn!(%node, %key, token = token.0, attempts, error, ?pause, "a job failed, it is tried again after a pause");
        }
        Notice::Failed { key, token, attempts, error, .. } => {
            tracing::warn!(%node, %key, token = token.0, attempts, error, "a job failed and is gone");
        }
        Notice::Parked { key, error } => {
            tracing::warn!(%node, %key, error, "a job failed too often and is parked");
        }
        Notice::ParkedUnowned { id } => {
            tracing::warn!(%node, dispatch = %id, "a job lost too many workers and is parked");
        }
    }
}
