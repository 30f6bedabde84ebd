//! The consumer through its public API: traces on all stores of progress, the checklist line by line, and a
//! model with crashes at every step.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod checklist;
mod ending;
mod failing;
mod logs;
mod model;
mod mutants;
mod shelf;
mod stores;
mod traces;
mod watching;

use std::time::Duration;

use shelf::Shelf;
use tenure_sequence::{Builder, Consumer, Explanation, Finisher, Handler, Jobs, Progress, Source};

/// Longer than anything takes.
const PATIENCE: Duration = Duration::from_secs(30);

/// A consumer that has started, with this handler.
async fn started<S: Source, P: Progress>(builder: Builder<S, P>, handler: impl Handler<S::Job>) -> Consumer {
    let consumer = builder.build(handler).unwrap();
    consumer.start().await.unwrap();
    consumer
}

/// A consumer that has started; the test takes and finishes its jobs.
async fn by_hand<S: Source, P: Progress>(builder: Builder<S, P>) -> (Consumer, Jobs<S::Job>, Finisher) {
    let (consumer, jobs, finisher) = builder.manual().unwrap();
    consumer.start().await.unwrap();
    (consumer, jobs, finisher)
}

/// The state in the notation of the traces: progress, then the indexes that run (`!`) or are done (`*`).
fn shown(seen: &Explanation) -> String {
    let state = |index| {
        let runs = seen.running.iter().any(|job| job.index == index);
        format!(" {index}{}", if runs { '!' } else { '*' })
    };
    let begun: String = (seen.progress + 1..=seen.begun).map(state).collect();
    format!("{}#{begun}", seen.progress)
}

/// The state when there is nothing left to do.
async fn state(consumer: &Consumer) -> String {
    consumer.settled().await;
    shown(&consumer.explain())
}
