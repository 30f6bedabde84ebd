//! Why a job is where it is, as it is shown.

use serde_json::{Map, Value, json};
use tenure_pool::{Explanation, Verdict};

use crate::out::{Tone, shown, when};

/// The remedy, for those who do not want to wait. None where nothing needs to be done.
pub(crate) fn remedy(seen: &Explanation) -> Option<String> {
    let key = shown::argument(&seen.key);
    let node = seen.owner.as_ref().and_then(|owner| owner.node.as_deref()).unwrap_or("its node");
    Some(match &seen.verdict {
        Verdict::NoRoom { .. } | Verdict::PassedOver { .. } | Verdict::NotBegun if seen.refusal.is_some() => {
            "mend the cause that the last refusal names, such as the program or the image of the workers"
                .to_owned()
        }
        Verdict::Paused => format!("`tenure resume {key}`, when it may run again"),
        Verdict::Parked => format!("mend the cause, then `tenure retry {key}`; or `tenure stop {key}`"),
        Verdict::BackOff => format!("mend the cause; `tenure retry {key}` does not wait for the pause"),
        Verdict::NoWorker | Verdict::AllLeaving { .. } => "start a node with a worker".to_owned(),
        Verdict::Recovering | Verdict::NotReported if awaits(seen) => {
            "if this lasts, look at the processes of the workers that it waits for".to_owned()
        }
        Verdict::Recovering | Verdict::NotReported => {
            "a full node opens the pool: start one, if none runs".to_owned()
        }
        Verdict::NobodyLives { .. } => {
            "start a node with a worker: those that are members are dead".to_owned()
        }
        Verdict::AllCordoned => "`tenure uncordon NODE`, or add a node".to_owned(),
        Verdict::NoRoom { .. } => {
            "add workers, or raise their capacity: `tenure workers` shows their jobs".to_owned()
        }
        Verdict::OnHold | Verdict::Moving { on_hold: true, .. } => {
            "`tenure unhold`, when the incident is over".to_owned()
        }
        Verdict::NotBegun | Verdict::PassedOver { .. } => {
            format!(
                "look at the log of the worker that passes it over; `tenure bounce {key}` asks the next one"
            )
        }
        Verdict::OwnerSilent => format!("look at the process of {node}: it is dead, hangs, or is cut off"),
        Verdict::Stopping => {
            format!("if this lasts, restart the process of {node}: its handler does not end")
        }
        Verdict::Starting => format!("if this lasts, `tenure bounce {key}` starts it on another worker"),
        Verdict::PastHome { .. } => format!("`tenure bounce --home {key}`, if it is to go home"),
        Verdict::Unreadable { newer: Some(_) } => {
            "upgrade this command: a newer node wrote the record".to_owned()
        }
        Verdict::Unreadable { newer: None } => {
            "see the section on repairs by hand in docs/protocol/recovery.md".to_owned()
        }
        _ => return None,
    })
}

/// Whether the pool waits for workers before it opens.
fn awaits(seen: &Explanation) -> bool {
    seen.opening.as_ref().is_some_and(|opening| !opening.awaited.is_empty())
}

/// The document: lengths of time end in `_ms`, points in time are RFC 3339.
pub(crate) fn fields(seen: &Explanation) -> Value {
    let (key, key64) = shown::key_fields(&seen.key);
    let mut fields = serde_json::to_value(seen).unwrap_or_default();
    if let Value::Object(all) = &mut fields {
        for name in ["lasting", "due", "age"] {
            rename(all, name);
        }
        for (inner, name) in [("owner", "renewed"), ("checkpoint", "age"), ("shutdown", "left")] {
            if let Some(Value::Object(inner)) = all.get_mut(inner) {
                rename(inner, name);
            }
        }
        all.insert("accepted".into(), json!(seen.accepted.map(when::stamp)));
        all.insert("key".into(), json!(key));
        all.insert("key64".into(), json!(key64));
        all.insert("why".into(), json!(seen.why.map(|why| why.cause)));
        all.insert("former_worker".into(), json!(seen.why.and_then(|why| why.former)));
        all.insert("text".into(), json!(seen.to_string()));
        all.insert("remedy".into(), json!(remedy(seen)));
        if let Some(pause) = &seen.paused {
            all.insert("state".into(), json!("paused"));
            if let Some(Value::Object(inner)) = all.get_mut("paused") {
                inner.insert("until".into(), json!(pause.until.map(when::stamp)));
            }
        }
    }
    fields
}

fn rename(fields: &mut Map<String, Value>, name: &str) {
    if let Some(value) = fields.remove(name) {
        fields.insert(format!("{name}_ms"), value);
    }
}

/// How a verdict looks.
pub(crate) fn tone(verdict: &Verdict) -> Tone {
    match verdict {
        Verdict::AtHome | Verdict::Cordoned | Verdict::PastHome { .. } => Tone::Good,
        Verdict::Parked
        | Verdict::OwnerLost
        | Verdict::OwnerSilent
        | Verdict::NoWorker
        | Verdict::NobodyLives { .. }
        | Verdict::AllCordoned
        | Verdict::AllLeaving { .. }
        | Verdict::Unreadable { .. } => Tone::Bad,
        _ => Tone::Warn,
    }
}
