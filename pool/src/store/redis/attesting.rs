//! Recovery: the reports of living workers about their jobs.

use super::RedisStore;
use super::ownership::{millis, mode_letter};
use crate::model::id::{Incarnation, JobKey};
use crate::model::record::{Begun, Record};
use crate::store::{Attend, Attest, AttestItem, AttestJobs, AttestReply, HandedOff, OnRedis, Result};

impl OnRedis for AttestJobs {
    async fn on_redis(&self, store: &RedisStore, inc: Incarnation) -> Result<Vec<AttestReply>> {
        let &Self { worker, ref member, ref items } = self;
        let mut call = store.steps.scripts.attest.call(&[]);
        call.arg(inc.0).arg(worker.0).arg(member.to_string());
        for AttestItem { key, token, id, what } in items {
            let kind = match what {
                Attest::Runs { back: true, .. } => "t",
                Attest::Runs { back: false, .. } => "r",
                Attest::Ended { .. } => "e",
                Attest::HandedOff(_) => "h",
            };
            call.arg(kind).arg(key.as_bytes()).arg(token.0).arg(id.as_str());
            match what {
                Attest::Runs { begun, attempts, created, plan, generation, payload, .. } => {
                    call.arg(flag(*begun)).arg(*attempts).arg(*created).arg(plan);
                    call.arg(u8::from(payload.is_some())).arg(payload.as_deref().unwrap_or_default());
                    call.arg(*generation);
                }
                Attest::Ended { outcome, unless: None } => {
                    call.arg(0).arg(0).arg(0).arg("").arg(0).arg(outcome).arg(Record::LAST_GENERATION);
                }
                Attest::Ended { outcome, unless: Some(later) } => {
                    let HandedOff { begun, mode, cause, error, .. } = later.handed_off();
                    call.arg(flag(begun)).arg(0).arg(0);
                    call.arg(format!("{}{}", mode_letter(mode), cause.letter()));
                    call.arg(error).arg(outcome).arg(later.than);
                }
                Attest::HandedOff(HandedOff { begun, mode, cause, attempts, delay, error }) => {
                    call.arg(flag(*begun)).arg(*attempts).arg(millis(*delay));
                    call.arg(format!("{}{}", mode_letter(*mode), cause.letter()));
                    call.arg(0).arg(error).arg(0);
                }
            }
        }
        let mut values = store.steps.run("attest", call).await?.items(items.len())?;
        items.iter().map(|_| values.letter("an attestation's answer")).collect()
    }
}

impl OnRedis for Attend {
    async fn on_redis(&self, store: &RedisStore, inc: Incarnation) -> Result<Option<JobKey>> {
        let &Self { worker, ref after, limit } = self;
        let after = after.as_ref();
        let mut call = store.steps.scripts.attend.call(&[]);
        call.arg(inc.0).arg(worker.0).arg(after.map_or(&[][..], JobKey::as_bytes)).arg(limit);
        let reply = store.steps.run("attend", call).await?;
        match reply.code() {
            b"DONE" => Ok(None),
            b"MORE" => reply.values().key().map(Some),
            _ => Err(reply.refused()),
        }
    }
}

/// How far a job has come that has at least begun.
fn flag(begun: Begun) -> u8 {
    match begun {
        Begun::Never | Begun::Begun => 1,
        Begun::Started => 2,
    }
}
