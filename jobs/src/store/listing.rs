//! The lists of jobs that a sorted set holds.

use super::{Listing, Page};
use crate::model::id::JobId;

/// The length of a place.
const PLACE: usize = 17;

impl Listing {
    /// The key of the list, and what its members begin with.
    pub(super) fn place(&self) -> (&'static str, String) {
        match self {
            Self::Dead(queue) => ("index", format!("f:{queue}|")),
            Self::With(lookup) => ("index", format!("k:{lookup}|")),
            Self::Ready(queue) => ("ready", format!("{queue}|")),
        }
    }

    /// The page of these members.
    pub(super) fn page(&self, prefix: &str, members: &[String], size: u32) -> Page {
        let id = |member: &String| {
            let rest = member.get(prefix.len()..)?;
            let rest = match self {
                Self::With(_) => rest,
                Self::Dead(_) => rest.get(PLACE..)?,
                Self::Ready(_) => rest.rsplit('|').next()?.get(PLACE..)?,
            };
            JobId::new(rest).ok()
        };
        let full = members.len() >= size as usize;
        let last = members.last().and_then(|member| member.get(prefix.len()..)).map(str::to_owned);
        Page { ids: members.iter().filter_map(id).collect(), next: last.filter(|_| full) }
    }
}
