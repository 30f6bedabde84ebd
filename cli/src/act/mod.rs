//! What commands, the page and `top` do to a pool, once for all of them.

mod by;
mod dispatch;

pub(crate) use self::by::By;
pub(crate) use self::dispatch::{Dispatched, How, Policy, one};
