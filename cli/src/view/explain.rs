//! Why a job is where it is, as it is shown.

use serde_json::{Map, Value, json};
use tenure_pool::inspect::{Explanation, Verdict};

use crate::out::{Tone, shown, when};

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
        all.insert("remedy".into(), json!(seen.remedy()));
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
