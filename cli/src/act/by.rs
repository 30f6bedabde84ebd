//! The person behind a change of a job.

use std::env;

use clap::Args;
use tenure_pool::Steer;

/// The person who wants it
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct By {
    /// Your name: shown with the job and in the pool's events. The default is $USER
    #[arg(long, value_name = "NAME")]
    by: Option<String>,
}

impl By {
    /// Adds the name of the person to a change, if the name is known.
    pub(crate) fn sign(&self, word: Steer) -> Steer {
        let is_name = |user: &String| {
            (1..=64).contains(&user.len()) && user.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'|')
        };
        match self.by.clone().or_else(|| env::var("USER").ok().filter(is_name)) {
            Some(by) => word.by(by),
            None => word,
        }
    }
}
