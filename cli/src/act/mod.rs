//! Changes of a pool, once for commands, page and `top`.

mod by;
mod dispatch;
mod verb;

pub(crate) use self::by::By;
pub(crate) use self::dispatch::{Dispatched, How, Policy, one};
pub(crate) use self::verb::{Change, Verb};
