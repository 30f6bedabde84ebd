//! The person behind a change of a job.

use std::env;

use clap::Args;

/// The person who wants it
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct By {
    /// Your name: shown with the job and in the pool's events. The default is $USER
    #[arg(long, value_name = "NAME")]
    by: Option<String>,
}

impl By {
    /// The name of the person, if the name is known.
    pub(crate) fn name(self) -> Option<String> {
        let is_name = |user: &String| {
            (1..=64).contains(&user.len()) && user.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'|')
        };
        self.by.or_else(|| env::var("USER").ok().filter(is_name))
    }
}
